# Three roles: what starts the tasks, what the servers may, what the workers may. No role may write anything but cases.

data "aws_iam_policy_document" "tasks" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }
    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:ecs:${local.region}:${local.account}:*"]
    }
  }
}

resource "aws_iam_role" "execution" {
  name_prefix        = "${var.name}-execution-"
  description        = "Faultline: starts its tasks"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
  tags               = var.tags
}

data "aws_iam_policy_document" "execution" {
  dynamic "statement" {
    for_each = var.image_repository_arn == null ? [] : [var.image_repository_arn]
    content {
      sid       = "PullImage"
      actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
      resources = [statement.value]
    }
  }
  dynamic "statement" {
    for_each = var.image_repository_arn == null ? [] : [1]
    content {
      sid       = "LogInToRegistry"
      actions   = ["ecr:GetAuthorizationToken"]
      resources = ["*"] # AWS knows no resource for it
    }
  }
  statement {
    sid       = "Log"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = [for group in [aws_cloudwatch_log_group.server, aws_cloudwatch_log_group.worker] : "${group.arn}:*"]
  }
  statement {
    sid     = "Secrets"
    actions = ["secretsmanager:GetSecretValue"]
    resources = concat(
      [module.database_password.secret_arn],
      [for secret in aws_secretsmanager_secret.setting : secret.arn],
    )
  }
  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]
    content {
      sid       = "SecretsKey"
      actions   = ["kms:Decrypt"]
      resources = [statement.value]
    }
  }
}

resource "aws_iam_role_policy" "execution" {
  name   = "start-tasks"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}

# Servers write and show cases, and never ask a vendor or read a log: those permissions are the workers'.
resource "aws_iam_role" "server" {
  name_prefix        = "${var.name}-server-"
  description        = "Faultline: servers"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
  tags               = var.tags
}

resource "aws_iam_role_policy_attachment" "server_cases" {
  role       = aws_iam_role.server.name
  policy_arn = module.case_store.policy_arn
}

resource "aws_iam_role" "worker" {
  name_prefix        = "${var.name}-worker-"
  description        = "Faultline: workers"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
  tags               = var.tags
}

resource "aws_iam_role_policy_attachment" "worker_cases" {
  role       = aws_iam_role.worker.name
  policy_arn = module.case_store.policy_arn
}

resource "aws_iam_role_policy" "read_this_account" {
  count = var.read_this_account ? 1 : 0
  name  = "read-this-account"
  role  = aws_iam_role.worker.id
  # Written from the list of calls in the program: python -m faultline.connectors.vendors.aws.policy_files
  policy = file("${path.module}/modules/read-only-role/connector-policy.json")
}

data "aws_iam_policy_document" "read_other_accounts" {
  count = length(var.read_role_arns) > 0 ? 1 : 0
  statement {
    sid       = "ReadOtherAccounts"
    actions   = ["sts:AssumeRole"]
    resources = var.read_role_arns
  }
}

resource "aws_iam_role_policy" "read_other_accounts" {
  count  = length(var.read_role_arns) > 0 ? 1 : 0
  name   = "read-other-accounts"
  role   = aws_iam_role.worker.id
  policy = data.aws_iam_policy_document.read_other_accounts[0].json
}
