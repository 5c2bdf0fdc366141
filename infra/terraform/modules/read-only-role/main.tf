# The role by which the bot reads another account: what its AWS connector calls, and nothing else.

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "AWS"
      identifiers = var.trusted_role_arns
    }
    condition {
      test     = "StringEquals"
      variable = "sts:ExternalId"
      values   = [var.external_id]
    }
  }
}

resource "aws_iam_role" "read" {
  name                 = var.name
  description          = "Faultline reads metrics, logs, traces, deployments and changes"
  assume_role_policy   = data.aws_iam_policy_document.trust.json
  max_session_duration = 3600
  tags                 = var.tags
}

resource "aws_iam_role_policy" "read" {
  name = "read"
  role = aws_iam_role.read.id
  # Written from the list of calls in the program: python -m faultline.connectors.vendors.aws.policy_files
  policy = file("${path.module}/connector-policy.json")
}
