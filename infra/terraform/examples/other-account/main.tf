# In an account that the bot reads: the role that it assumes.

terraform {
  required_version = ">= 1.11"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0, < 7.0"
    }
  }
}

provider "aws" {
  region = "eu-west-1"
}

module "faultline_read" {
  source = "../../modules/read-only-role"

  trusted_role_arns = ["arn:aws:iam::123456789012:role/faultline-worker-20260101000000000000000001"]
  external_id       = "faultline-shop"
}

output "role_arn" {
  description = "Value for role_arn of [[aws.accounts]]."
  value       = module.faultline_read.role_arn
}
