variable "name" {
  description = "Name of the role."
  type        = string
  default     = "faultline-read"
}

variable "trusted_role_arns" {
  description = "Who may assume it: the `worker_role_arn` of the bot's module."
  type        = list(string)
  validation {
    condition     = length(var.trusted_role_arns) > 0 && alltrue([for arn in var.trusted_role_arns : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/", arn))])
    error_message = "trusted_role_arns must be ARNs of roles: never an account as a whole, never *."
  }
}

variable "external_id" {
  description = "What the bot must present; the same goes into `external_id` of `[[aws.accounts]]`."
  type        = string
  validation {
    condition     = length(var.external_id) >= 2 && length(var.external_id) <= 1224 && can(regex("^[\\w+=,.@:/-]+$", var.external_id))
    error_message = "external_id must be 2 to 1224 letters, digits or +=,.@:/-"
  }
}

variable "tags" {
  description = "Tags of everything created."
  type        = map(string)
  default     = {}
}
