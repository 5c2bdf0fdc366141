# Where it runs

variable "name" {
  description = "Begins the names of everything created; one for each installation in an account and region."
  type        = string
  default     = "faultline"
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,20}[a-z0-9]$", var.name))
    error_message = "name must be 3 to 22 of a-z, 0-9 and hyphen, and begin with a letter."
  }
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "private_subnet_ids" {
  description = "Subnets of the tasks and the database, in two zones at least, with a way to the internet (NAT): Slack and vendors are called from there."
  type        = list(string)
  validation {
    condition     = length(distinct(var.private_subnet_ids)) >= 2
    error_message = "private_subnet_ids must name two subnets at least, in different zones."
  }
}

variable "public_subnet_ids" {
  description = "Subnets of the load balancer, in two zones at least. None where `internal` is true."
  type        = list(string)
  default     = []
}

variable "internal" {
  description = "Whether the load balancer is reached from inside alone: enough where alerts come by Slack's Socket Mode and pages are read through a VPN."
  type        = bool
  default     = false
}

variable "allowed_cidrs" {
  description = "Who may call the load balancer. Webhooks come from the vendors' addresses, and most publish no fixed list; each is signed."
  type        = list(string)
  default     = ["0.0.0.0/0"]
  validation {
    condition     = alltrue([for cidr in var.allowed_cidrs : can(cidrnetmask(cidr))])
    error_message = "allowed_cidrs must be IPv4 networks such as 10.0.0.0/8."
  }
}

variable "extra_egress" {
  description = "Ways out beside HTTPS: a Prometheus in the VPC, say."
  type        = list(object({ port = number, cidr = string, description = string }))
  default     = []
  validation {
    condition     = alltrue([for way in var.extra_egress : can(cidrnetmask(way.cidr)) && way.port >= 1 && way.port <= 65535])
    error_message = "extra_egress: each needs a port of 1 to 65535 and an IPv4 network."
  }
}

variable "host_name" {
  description = "The name people and vendors call: faultline.example.com."
  type        = string
  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.host_name))
    error_message = "host_name must be a host's full name, without https:// and without a path."
  }
}

variable "certificate_arn" {
  description = "ACM certificate for `host_name`, issued, in the same region."
  type        = string
  validation {
    condition     = can(regex("^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/", var.certificate_arn))
    error_message = "certificate_arn must be the ARN of an ACM certificate."
  }
}

variable "route53_zone_id" {
  description = "Hosted zone in which to make a record for `host_name`; without it you make one elsewhere."
  type        = string
  default     = null
}

variable "tls_policy" {
  description = "The load balancer's security policy."
  type        = string
  default     = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  validation {
    condition     = can(regex("^ELBSecurityPolicy-TLS13-1-[23]-", var.tls_policy))
    error_message = "tls_policy must take TLS 1.2 or newer alone."
  }
}

# What runs

variable "image" {
  description = "The container image, by tag or, better, by digest."
  type        = string
  validation {
    condition     = !endswith(var.image, ":latest") && can(regex("[:@]", var.image))
    error_message = "image must name a version or a digest: what `latest` is changes while tasks are replaced."
  }
}

variable "image_repository_arn" {
  description = "ECR repository of the image, which the tasks may then pull from; null for a public registry."
  type        = string
  default     = null
}

variable "cpu_architecture" {
  description = "X86_64 or ARM64, as the image was built."
  type        = string
  default     = "X86_64"
  validation {
    condition     = contains(["X86_64", "ARM64"], var.cpu_architecture)
    error_message = "cpu_architecture must be X86_64 or ARM64."
  }
}

variable "settings" {
  description = "The text of faultline.toml: services, channels, connectors; no secrets. The address, the database, the bucket and the proxies are set already."
  type        = string
  default     = ""
  validation {
    condition     = length(var.settings) <= 24000
    error_message = "settings must be at most 24,000 characters: all of a task's definition must stay below 64 KB."
  }
}

variable "environment" {
  description = "Further settings that are no secrets, as FAULTLINE_<SECTION>__<KEY>."
  type        = map(string)
  default     = {}
  validation {
    condition     = alltrue([for name in keys(var.environment) : startswith(name, "FAULTLINE_") && name != "FAULTLINE_STORE__DATABASE" && !anytrue([for pattern in local.secret_patterns : can(regex(pattern, name))])])
    error_message = "environment takes FAULTLINE_... settings that are no secrets, and not the database; secrets go into `secrets` and `secret_values`."
  }
}

variable "secrets" {
  description = "Secrets of the settings that are in use, by the names of their environment variables, those of named instances too. FAULTLINE_SERVER__ACCESS_TOKEN opens the pages."
  type        = set(string)
  default     = ["FAULTLINE_SERVER__ACCESS_TOKEN"]
  validation {
    condition     = alltrue([for name in var.secrets : anytrue([for pattern in local.secret_patterns : can(regex(pattern, name))])])
    error_message = "secrets must be names from settings-secrets.json, such as FAULTLINE_SLACK__BOT_TOKEN, or FAULTLINE_SLACK__EU__BOT_TOKEN of a [[slack]] named eu."
  }
}

variable "secret_values" {
  description = "Values of `secrets`, for the apply that sets them; in no state and no plan. Those not given begin as a value that nobody knows."
  type        = map(string)
  default     = {}
  sensitive   = true
  ephemeral   = true
}

variable "secrets_version" {
  description = "A higher number writes `secret_values` again, all of them, and replaces the tasks."
  type        = number
  default     = 1
}

variable "secret_recovery_window_days" {
  description = "Days for which a deleted secret can be restored. 0 deletes it at once."
  type        = number
  default     = 7
  validation {
    condition     = var.secret_recovery_window_days == 0 || (var.secret_recovery_window_days >= 7 && var.secret_recovery_window_days <= 30)
    error_message = "secret_recovery_window_days must be 0, or 7 to 30."
  }
}

variable "slack_workspaces" {
  description = "Names of the `[[slack]]` tables of the settings: each workspace has its own addresses."
  type        = set(string)
  default     = []
  validation {
    condition     = alltrue([for name in var.slack_workspaces : can(regex("^[A-Za-z0-9]+([-_.][A-Za-z0-9]+)*$", name))])
    error_message = "slack_workspaces must be names as the settings take them: letters and digits, with single - _ or . between."
  }
}

variable "server_count" {
  description = "Servers. Two survive the loss of a zone."
  type        = number
  default     = 2
  validation {
    condition     = var.server_count >= 1 && var.server_count <= 20
    error_message = "server_count must be 1 to 20."
  }
}

variable "server_cpu" {
  description = "CPU units of a server: 1024 is one."
  type        = number
  default     = 512
}

variable "server_memory" {
  description = "MiB of a server."
  type        = number
  default     = 1024
}

variable "worker_count_min" {
  description = "Workers while nothing waits. Two survive the loss of a zone."
  type        = number
  default     = 2
  validation {
    condition     = var.worker_count_min >= 1
    error_message = "worker_count_min must be at least 1: without a worker nothing is investigated."
  }
}

variable "worker_count_max" {
  description = "Workers at most."
  type        = number
  default     = 10
}

variable "worker_cpu" {
  description = "CPU units of a worker; traces of training jobs want 2048 or more."
  type        = number
  default     = 1024
}

variable "worker_memory" {
  description = "MiB of a worker; traces of training jobs want 8192 or more."
  type        = number
  default     = 4096
}

variable "worker_disk_gb" {
  description = "GiB of scratch space of a worker: traces are unpacked there."
  type        = number
  default     = 50
  validation {
    condition     = var.worker_disk_gb >= 21 && var.worker_disk_gb <= 200
    error_message = "worker_disk_gb must be 21 to 200."
  }
}

variable "queue_age_target_s" {
  description = "When the oldest alert has waited for this many seconds, another worker is started."
  type        = number
  default     = 30
  validation {
    condition     = var.queue_age_target_s >= 5
    error_message = "queue_age_target_s must be at least 5."
  }
}

# What it may read

variable "read_this_account" {
  description = "Whether the workers may read metrics, logs, traces and deployments of this account."
  type        = bool
  default     = true
}

variable "read_role_arns" {
  description = "Roles in other accounts that the workers may assume; `modules/read-only-role` makes them."
  type        = list(string)
  default     = []
  validation {
    condition     = alltrue([for arn in var.read_role_arns : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/[^*]+$", arn))])
    error_message = "read_role_arns must be ARNs of roles, without wildcards."
  }
}

variable "trace_buckets" {
  description = "Buckets in which training jobs leave their traces; read only."
  type        = list(string)
  default     = []
}

# What it keeps

variable "cases_bucket" {
  description = "Name of the bucket for cases; unset: made of name, account and region."
  type        = string
  default     = null
}

variable "case_retention_days" {
  description = "Days after which a case is deleted."
  type        = number
  default     = 400
}

variable "case_deleted_versions_days" {
  description = "Days for which a file of a case can be restored after it was overwritten or deleted."
  type        = number
  default     = 14
}

variable "database_version" {
  description = "PostgreSQL's version."
  type        = string
  default     = "17"
  validation {
    condition     = can(regex("^1[5-9](\\.[0-9]+)?$", var.database_version))
    error_message = "database_version must be 15 or newer."
  }
}

variable "database_instance_class" {
  description = "The database's size."
  type        = string
  default     = "db.t4g.medium"
}

variable "database_storage_gb" {
  description = "GiB of storage to begin with."
  type        = number
  default     = 20
  validation {
    condition     = var.database_storage_gb >= 20
    error_message = "database_storage_gb must be at least 20: gp3 takes no less."
  }
}

variable "database_max_storage_gb" {
  description = "GiB that storage may grow to by itself."
  type        = number
  default     = 200
}

variable "database_multi_az" {
  description = "Whether a standby in another zone takes over when the database's zone fails."
  type        = bool
  default     = true
}

variable "database_backup_days" {
  description = "Days for which the database can be restored to any moment."
  type        = number
  default     = 14
  validation {
    condition     = var.database_backup_days >= 1 && var.database_backup_days <= 35
    error_message = "database_backup_days must be 1 to 35."
  }
}

variable "database_apply_immediately" {
  description = "Whether changes of the database happen at once, not in its maintenance window. A new password always does."
  type        = bool
  default     = false
}

variable "database_password_version" {
  description = "A higher number makes a new password and replaces the tasks."
  type        = number
  default     = 1
}

variable "database_ca_file" {
  description = "Certificates by which the database is known, as the image has them."
  type        = string
  default     = "/etc/ssl/rds/global-bundle.pem"
}

variable "database_connections_alarm" {
  description = "Alarm above this many connections; a db.t4g.medium takes about 400."
  type        = number
  default     = 300
}

variable "kms_key_arn" {
  description = "Your own key for cases, database, secrets and logs; its policy must let CloudWatch Logs of this region use it. Unset: the services' own keys."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether database, load balancer and cases withstand `terraform destroy`."
  type        = bool
  default     = true
}

# What is watched

variable "alarm_topic_arns" {
  description = "SNS topics that CloudWatch alarms about the bot itself notify."
  type        = list(string)
  default     = []
  validation {
    condition     = alltrue([for arn in var.alarm_topic_arns : can(regex("^arn:aws[a-z-]*:sns:", arn))])
    error_message = "alarm_topic_arns must be ARNs of SNS topics."
  }
}

variable "queue_age_alarm_s" {
  description = "Alarm when the oldest alert has waited for this many seconds, five minutes in a row."
  type        = number
  default     = 300
}

variable "log_retention_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 365
  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827], var.log_retention_days)
    error_message = "log_retention_days must be one of those CloudWatch Logs takes: 30, 90, 180, 365, 400, ..."
  }
}

variable "access_logs_bucket" {
  description = "Bucket for the load balancer's access logs, whose policy lets the load balancer write; unset: none are written."
  type        = string
  default     = null
}

variable "page_rate_limit" {
  description = "Requests for pages that one address may send in five minutes."
  type        = number
  default     = 3000
}

variable "webhook_rate_limit" {
  description = "Webhooks that one address may send in five minutes: far above what a vendor sends in a storm."
  type        = number
  default     = 60000
}

variable "tags" {
  description = "Tags of everything created."
  type        = map(string)
  default     = {}
}
