# All of it in an existing VPC: Slack and PagerDuty in, this account and another one read, alarms by e-mail.

terraform {
  required_version = ">= 1.11"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0, < 7.0"
    }
  }
  # backend "s3" { ... }  where your team keeps its state
}

provider "aws" {
  region = var.region
}

variable "region" {
  description = "Where it runs."
  type        = string
  default     = "eu-west-1"
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "public_subnet_ids" {
  description = "Subnets of the load balancer."
  type        = list(string)
}

variable "private_subnet_ids" {
  description = "Subnets of everything else."
  type        = list(string)
}

variable "host_name" {
  description = "The name people and vendors call."
  type        = string
}

variable "certificate_arn" {
  description = "ACM certificate for it."
  type        = string
}

variable "image" {
  description = "The container image."
  type        = string
}

variable "image_repository_arn" {
  description = "ECR repository of the image."
  type        = string
}

variable "secret_values" {
  description = "Values of the secrets, for the first apply: -var-file=secrets.tfvars, a file that is in no repository."
  type        = map(string)
  default     = {}
  sensitive   = true
  ephemeral   = true
}

resource "aws_sns_topic" "alarms" {
  name = "faultline-alarms"
}

module "faultline" {
  source = "../.."

  vpc_id             = var.vpc_id
  public_subnet_ids  = var.public_subnet_ids
  private_subnet_ids = var.private_subnet_ids
  host_name          = var.host_name
  certificate_arn    = var.certificate_arn

  image                = var.image
  image_repository_arn = var.image_repository_arn
  settings             = file("${path.module}/faultline.toml")

  secrets = [
    "FAULTLINE_SERVER__ACCESS_TOKEN",
    "FAULTLINE_SLACK__BOT_TOKEN",
    "FAULTLINE_SLACK__SIGNING_SECRETS",
    "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS",
    "FAULTLINE_PAGERDUTY__API_TOKEN",
  ]
  secret_values = var.secret_values

  read_role_arns   = ["arn:aws:iam::210987654321:role/faultline-read"]
  alarm_topic_arns = [aws_sns_topic.alarms.arn]

  tags = { application = "faultline" }
}

output "url" {
  description = "The pages."
  value       = module.faultline.url
}

output "webhook_urls" {
  description = "What to enter at each vendor."
  value       = module.faultline.webhook_urls
}

output "load_balancer_dns_name" {
  description = "What the host name must point at."
  value       = module.faultline.load_balancer_dns_name
}

output "worker_role_arn" {
  description = "Whom the other account's read-only role must trust."
  value       = module.faultline.worker_role_arn
}
