terraform {
  required_version = ">= 1.11" # write-only arguments keep passwords out of the state
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0, < 7.0"
    }
  }
}
