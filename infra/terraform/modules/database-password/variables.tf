variable "name" {
  description = "Name of the secret."
  type        = string
}

variable "username" {
  description = "The user it belongs to."
  type        = string
}

variable "password_version" {
  description = "A higher number makes a new password."
  type        = number
}

variable "kms_key_arn" {
  description = "Key for encryption at rest; without it Secrets Manager's own."
  type        = string
  default     = null
}

variable "recovery_window_days" {
  description = "For so many days a deleted secret can be brought back."
  type        = number
  default     = 7
}

variable "tags" {
  description = "Tags of everything created."
  type        = map(string)
  default     = {}
}
