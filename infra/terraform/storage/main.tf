# What the bot keeps in and reads from AWS: a private, encrypted bucket for case folders, and one policy for its role.

terraform {
  required_version = ">= 1.9"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.80"
    }
  }
}

resource "aws_s3_bucket" "cases" {
  bucket = var.cases_bucket
  tags   = var.tags
}

resource "aws_s3_bucket_public_access_block" "cases" {
  bucket                  = aws_s3_bucket.cases.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "cases" {
  bucket = aws_s3_bucket.cases.id
  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "cases" {
  bucket = aws_s3_bucket.cases.id
  rule {
    id     = "expire"
    status = "Enabled"
    filter {}
    expiration {
      days = var.retention_days
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

data "aws_iam_policy_document" "bot" {
  statement {
    sid       = "WriteCases"
    actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
    resources = ["${aws_s3_bucket.cases.arn}/*"]
  }
  statement {
    sid       = "ListCases"
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.cases.arn]
  }
  dynamic "statement" {
    for_each = length(var.trace_buckets) > 0 ? [1] : []
    content {
      sid       = "ReadTraces"
      actions   = ["s3:GetObject"]
      resources = [for bucket in var.trace_buckets : "arn:aws:s3:::${bucket}/*"]
    }
  }
  dynamic "statement" {
    for_each = length(var.trace_buckets) > 0 ? [1] : []
    content {
      sid       = "ListTraces"
      actions   = ["s3:ListBucket"]
      resources = [for bucket in var.trace_buckets : "arn:aws:s3:::${bucket}"]
    }
  }
}

resource "aws_iam_policy" "bot" {
  name        = var.policy_name
  description = "Faultline: its own case bucket, and reading training traces"
  policy      = data.aws_iam_policy_document.bot.json
  tags        = var.tags
}
