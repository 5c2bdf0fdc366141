# The bucket for cases, by itself.

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::acme-faultline-cases" }
  }
}

run "bucket" {
  module {
    source = "./modules/case-store"
  }
  variables {
    bucket        = "acme-faultline-cases"
    trace_buckets = ["acme-training-traces"]
    kms_key_arn   = "arn:aws:kms:eu-west-1:123456789012:key/1"
  }

  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.cases.block_public_acls,
      aws_s3_bucket_public_access_block.cases.block_public_policy,
      aws_s3_bucket_public_access_block.cases.ignore_public_acls,
      aws_s3_bucket_public_access_block.cases.restrict_public_buckets,
    ])
    error_message = "Nothing in the bucket may be public."
  }
  assert {
    condition     = one(aws_s3_bucket_server_side_encryption_configuration.cases.rule[*].apply_server_side_encryption_by_default[0].sse_algorithm) == "aws:kms"
    error_message = "With a key of yours, cases must be encrypted by it."
  }
  assert {
    condition     = aws_s3_bucket_versioning.cases.versioning_configuration[0].status == "Enabled"
    error_message = "Deleted cases must be recoverable for a while."
  }
  assert {
    condition     = anytrue([for rule in aws_s3_bucket_lifecycle_configuration.cases.rule : rule.status == "Enabled" && anytrue([for e in rule.expiration : e.days == 400])])
    error_message = "Cases must expire."
  }
  assert {
    condition = anytrue([for statement in data.aws_iam_policy_document.bucket.statement :
      statement.effect == "Deny" && anytrue([for c in statement.condition : c.variable == "aws:SecureTransport" && contains(c.values, "false")])
    ])
    error_message = "The bucket must refuse requests without TLS."
  }
  assert {
    condition     = alltrue(flatten([for statement in data.aws_iam_policy_document.bot.statement : [for what in concat(tolist(statement.actions), tolist(statement.resources)) : what != "*" && !endswith(what, ":*")]]))
    error_message = "The bot's policy must name its actions and buckets."
  }
  assert {
    condition = alltrue([for statement in data.aws_iam_policy_document.bot.statement :
      !strcontains(join(" ", statement.resources), "acme-training-traces") || alltrue([for action in statement.actions : startswith(action, "s3:Get") || startswith(action, "s3:List")])
    ])
    error_message = "Traces are read, never written."
  }
  assert {
    condition     = output.cases_location == "s3://acme-faultline-cases/faultline"
    error_message = "The location must be what store.cases takes."
  }
}

run "role_for_another_account" {
  module {
    source = "./modules/read-only-role"
  }
  variables {
    trusted_role_arns = ["arn:aws:iam::123456789012:role/faultline-worker"]
    external_id       = "faultline-shop"
  }

  assert {
    condition     = one(data.aws_iam_policy_document.trust.statement[*].condition[0].variable) == "sts:ExternalId"
    error_message = "The role must ask for the external id."
  }
  assert {
    condition = alltrue(flatten([for statement in jsondecode(aws_iam_role_policy.read.policy).Statement : [
      for action in flatten([statement.Action]) : can(regex(":(Get|List|Describe|Lookup|BatchGet|StartQuery|StopQuery)", action))
    ]]))
    error_message = "The role may read alone."
  }
}
