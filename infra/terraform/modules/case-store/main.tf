# A private, encrypted bucket for case folders, and the policy that lets a role use it. For itself where the bot runs elsewhere.

data "aws_partition" "current" {}

resource "aws_s3_bucket" "cases" {
  bucket        = var.bucket
  force_destroy = var.force_destroy
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "cases" {
  bucket                  = aws_s3_bucket.cases.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "cases" {
  bucket = aws_s3_bucket.cases.id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "cases" {
  bucket = aws_s3_bucket.cases.id
  rule {
    bucket_key_enabled = true
    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_versioning" "cases" {
  bucket = aws_s3_bucket.cases.id
  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "cases" {
  bucket     = aws_s3_bucket.cases.id
  depends_on = [aws_s3_bucket_versioning.cases]

  rule {
    id     = "expire"
    status = "Enabled"
    filter {}
    expiration {
      days = var.retention_days
    }
    noncurrent_version_expiration {
      noncurrent_days = var.deleted_versions_days
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
  rule {
    id     = "leftover-delete-markers"
    status = "Enabled"
    filter {}
    expiration {
      expired_object_delete_marker = true
    }
  }
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "TlsOnly"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.cases.arn, "${aws_s3_bucket.cases.arn}/*"]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "cases" {
  bucket     = aws_s3_bucket.cases.id
  policy     = data.aws_iam_policy_document.bucket.json
  depends_on = [aws_s3_bucket_public_access_block.cases]
}

data "aws_iam_policy_document" "bot" {
  statement {
    sid       = "Cases"
    actions   = local.storage_actions.cases.objects
    resources = ["${aws_s3_bucket.cases.arn}/*"]
  }
  statement {
    sid       = "ListCases"
    actions   = local.storage_actions.cases.bucket
    resources = [aws_s3_bucket.cases.arn]
  }
  dynamic "statement" {
    for_each = length(var.trace_buckets) > 0 ? [1] : []
    content {
      sid       = "ReadTraces"
      actions   = local.storage_actions.traces.objects
      resources = [for bucket in var.trace_buckets : "arn:${data.aws_partition.current.partition}:s3:::${bucket}/*"]
    }
  }
  dynamic "statement" {
    for_each = length(var.trace_buckets) > 0 ? [1] : []
    content {
      sid       = "ListTraces"
      actions   = local.storage_actions.traces.bucket
      resources = [for bucket in var.trace_buckets : "arn:${data.aws_partition.current.partition}:s3:::${bucket}"]
    }
  }
  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]
    content {
      sid       = "CaseKey"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]
    }
  }
}

locals {
  # Written from the list of calls in the program: python -m faultline.connectors.vendors.aws.policy_files
  storage_actions = jsondecode(file("${path.module}/storage-actions.json"))
}

resource "aws_iam_policy" "bot" {
  name        = var.policy_name
  description = "Faultline: its own case bucket, and reading training traces"
  policy      = data.aws_iam_policy_document.bot.json
  tags        = var.tags
}
