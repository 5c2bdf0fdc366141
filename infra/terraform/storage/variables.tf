variable "cases_bucket" {
  description = "Name of the bucket for case folders; goes into store.cases as s3://NAME/faultline."
  type        = string
}

variable "trace_buckets" {
  description = "Buckets in which training jobs leave their traces; read only."
  type        = list(string)
  default     = []
}

variable "retention_days" {
  description = "After so many days a case is deleted."
  type        = number
  default     = 400
  validation {
    condition     = var.retention_days >= 1
    error_message = "retention_days must be at least 1."
  }
}

variable "kms_key_arn" {
  description = "Key for encryption at rest; without it S3's own keys are used."
  type        = string
  default     = null
}

variable "policy_name" {
  description = "Name of the policy for the bot's role."
  type        = string
  default     = "faultline-storage"
}

variable "tags" {
  description = "Tags of everything created."
  type        = map(string)
  default     = {}
}
