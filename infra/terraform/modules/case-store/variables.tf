variable "bucket" {
  description = "Name of the bucket for case folders."
  type        = string
  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "bucket must be a name as S3 has them: 3 to 63 of a-z, 0-9, hyphen, dot."
  }
}

variable "trace_buckets" {
  description = "Buckets in which training jobs leave their traces; read only."
  type        = list(string)
  default     = []
}

variable "retention_days" {
  description = "Days after which a case is deleted."
  type        = number
  default     = 400
  validation {
    condition     = var.retention_days >= 1 && floor(var.retention_days) == var.retention_days
    error_message = "retention_days must be a whole number of at least 1."
  }
}

variable "deleted_versions_days" {
  description = "Days for which a file of a case can be restored after it was overwritten or deleted."
  type        = number
  default     = 14
  validation {
    condition     = var.deleted_versions_days >= 1 && floor(var.deleted_versions_days) == var.deleted_versions_days
    error_message = "deleted_versions_days must be a whole number of at least 1."
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

variable "force_destroy" {
  description = "Whether destroying deletes the cases, too."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of everything created."
  type        = map(string)
  default     = {}
}
