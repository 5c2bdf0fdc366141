"""Defects to plant in copies of infra/, each with the check that must find it and words of what
that says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Check = Literal[
    "terraform fmt",
    "terraform validate",
    "terraform test",
    "checkov",
    "kubernetes schema",
    "pod security",
    "hadolint",
]


@dataclass(frozen=True)
class Defect:
    """One change for the worse: in `file` of the room, `old` becomes `new`; `check` then says
    `says`."""

    name: str
    check: Check
    file: str
    old: str
    new: str
    says: str
    alone: bool = False
    """Whether it keeps the check from seeing any other."""
    assertions: str = "security"
    """The file of `terraform/tests` that must find it, where `terraform test` is the check."""


TERRAFORM = (
    Defect(
        "an unformatted file",
        "terraform fmt",
        "secrets.tf",
        "  for_each                = var",
        "  for_each = var",
        "secrets.tf",
    ),
    Defect(
        "a misspelt attribute",
        "terraform validate",
        "database.tf",
        "storage_encrypted     = true",
        "storage_encripted     = true",
        'An argument named "storage_encripted" is not expected here',
    ),
    Defect(
        "a missing argument",
        "terraform validate",
        "load_balancer.tf",
        '  load_balancer_arn = aws_lb.this.arn\n  protocol          = "HTTPS"',
        '  protocol          = "HTTPS"',
        'The argument "load_balancer_arn" is required',
    ),
    Defect(
        "a reference to what is not there",
        "terraform validate",
        "services.tf",
        "task_definition                   = aws_ecs_task_definition.server.arn",
        "task_definition                   = aws_ecs_task_definition.web.arn",
        'A managed resource "aws_ecs_task_definition" "web" has not been declared',
        alone=True,
    ),
    Defect(
        "a password that would be kept in the state",
        "terraform test",
        "database.tf",
        "password_wo         = module.database_password.password\n"
        "  password_wo_version = var.database_password_version",
        "password            = module.database_password.password",
        "The password must be write-only",
    ),
    Defect(
        "the web ACL's association removed",
        "terraform test",
        "waf.tf",
        'resource "aws_wafv2_web_acl_association" "this" {\n  resource_arn = aws_lb.this.arn\n'
        "  web_acl_arn  = aws_wafv2_web_acl.this.arn\n}\n",
        "",
        'A managed resource "aws_wafv2_web_acl_association" "this" has not been declared',
        alone=True,
    ),
    Defect(
        "an unencrypted database",
        "terraform test",
        "database.tf",
        "storage_encrypted     = true",
        "storage_encrypted     = false",
        "The database must be encrypted",
    ),
    Defect(
        "a database that is reached from outside",
        "terraform test",
        "database.tf",
        "publicly_accessible    = false",
        "publicly_accessible    = true",
        "The database must not be reached from outside",
    ),
    Defect(
        "a database that a destroy takes with it",
        "terraform test",
        "database.tf",
        "deletion_protection       = var.deletion_protection",
        "deletion_protection       = false",
        "The database must withstand a destroy",
    ),
    Defect(
        "a database that takes connections without TLS",
        "terraform test",
        "database.tf",
        'name  = "rds.force_ssl"\n    value = "1"',
        'name  = "rds.force_ssl"\n    value = "0"',
        "must refuse connections without TLS",
    ),
    Defect(
        "a security group open to all",
        "terraform test",
        "network.tf",
        'description                  = "Load balancer"\n'
        "  referenced_security_group_id = aws_security_group.load_balancer.id",
        'description                  = "Load balancer"\n  cidr_ipv4                    = '
        '"0.0.0.0/0"',
        "Only the load balancer may reach the servers",
    ),
    Defect(
        "tasks with public addresses",
        "terraform test",
        "services.tf",
        "security_groups  = [aws_security_group.worker.id]\n    assign_public_ip = false",
        "security_groups  = [aws_security_group.worker.id]\n    assign_public_ip = true",
        "Tasks run in private subnets",
    ),
    Defect(
        "a plain HTTP listener that serves",
        "terraform test",
        "load_balancer.tf",
        'type = "redirect"\n    redirect {\n      protocol    = "HTTPS"\n      port        = '
        '"443"\n'
        '      status_code = "HTTP_301"\n    }',
        'type             = "forward"\n    target_group_arn = aws_lb_target_group.server.arn',
        "aws_lb_listener.http.default_action[0].redirect",
    ),
    Defect(
        "an old TLS policy",
        "terraform test",
        "load_balancer.tf",
        "ssl_policy        = var.tls_policy",
        'ssl_policy        = "ELBSecurityPolicy-2016-08"',
        "TLS 1.2 or newer alone",
    ),
    Defect(
        "a web ACL in front of something else",
        "terraform test",
        "waf.tf",
        "resource_arn = aws_lb.this.arn\n  web_acl_arn",
        "resource_arn = aws_lb_target_group.server.arn\n  web_acl_arn",
        "The web ACL must be in front of the load balancer",
    ),
    Defect(
        "a rate limit that throttles vendors",
        "terraform test",
        "variables.tf",
        "default     = 60000",
        "default     = 1000",
        "200 webhooks a second must pass",
    ),
    Defect(
        "an action by wildcard",
        "terraform test",
        "iam.tf",
        'actions = ["secretsmanager:GetSecretValue"]',
        'actions = ["secretsmanager:*"]',
        "No policy may allow an action by wildcard",
    ),
    Defect(
        "a permission on everything",
        "terraform test",
        "iam.tf",
        "[for group in [aws_cloudwatch_log_group.server, aws_cloudwatch_log_group.worker] : "
        '"${group.arn}:*"]',
        '["*"]',
        "Only ecr:GetAuthorizationToken",
    ),
    Defect(
        "servers that may read what workers may",
        "terraform test",
        "iam.tf",
        'name  = "read-this-account"\n  role  = aws_iam_role.worker.id',
        'name  = "read-this-account"\n  role  = aws_iam_role.server.id',
        "Reading is the workers' alone",
    ),
    Defect(
        "a writable root file system",
        "terraform test",
        "services.tf",
        'essential              = true\n    user                   = "10001:10001"\n    '
        "readonlyRootFilesystem = true",
        'essential              = true\n    user                   = "10001:10001"\n    '
        "readonlyRootFilesystem = false",
        "Containers run as nobody in particular",
    ),
    Defect(
        "a secret in a task's definition",
        "terraform test",
        "services.tf",
        "      AWS_REGION  ",
        '      FAULTLINE_SLACK__BOT_TOKEN = "xoxb-1"\n      AWS_REGION  ',
        "A secret must not stand in a task's definition",
    ),
    Defect(
        "a vendor's key at the servers",
        "terraform test",
        "services.tf",
        'local.secrets_of["server"]',
        'local.secrets_of["worker"]',
        "The servers must hold what proves senders",
    ),
    Defect(
        "a bad version that is not rolled back",
        "terraform test",
        "services.tf",
        "    rollback = true\n  }\n\n  network_configuration {\n    subnets          = "
        "var.private_subnet_ids\n"
        "    security_groups  = [aws_security_group.server.id]",
        "    rollback = false\n  }\n\n  network_configuration {\n    subnets          = "
        "var.private_subnet_ids\n"
        "    security_groups  = [aws_security_group.server.id]",
        "must be rolled back",
    ),
    Defect(
        "logs that are kept forever",
        "terraform test",
        "main.tf",
        'name              = "/${var.name}/worker"\n  retention_in_days = var.log_retention_days',
        'name              = "/${var.name}/worker"',
        "Logs must not be kept forever",
    ),
    Defect(
        "scaling on a metric that does not exist",
        "terraform test",
        "autoscaling.tf",
        'queue_age_metric = "QueueAgeSeconds"',
        'queue_age_metric = "QueueAge"',
        "Workers must scale on the metric that the servers write",
    ),
    Defect(
        "a public bucket",
        "terraform test",
        "modules/case-store/main.tf",
        "block_public_policy     = true",
        "block_public_policy     = false",
        "Nothing in the bucket may be public",
        assertions="case_store",
    ),
    Defect(
        "traces that could be overwritten",
        "terraform test",
        "modules/case-store/main.tf",
        "actions   = local.storage_actions.traces.objects",
        "actions   = local.storage_actions.cases.objects",
        "Traces are read, never written",
        assertions="case_store",
    ),
    Defect(
        "a role that asks for no external id",
        "terraform test",
        "modules/read-only-role/main.tf",
        'variable = "sts:ExternalId"',
        'variable = "aws:PrincipalOrgID"',
        "The role must ask for the external id",
        assertions="case_store",
    ),
    Defect(
        "a bucket without versions",
        "checkov",
        "modules/case-store/main.tf",
        'status = "Enabled"\n  }\n}\n\nresource "aws_s3_bucket_lifecycle',
        'status = "Suspended"\n  }\n}\n\nresource "aws_s3_bucket_lifecycle',
        "CKV_AWS_21",
    ),
    Defect(
        "a bucket whose access control is public",
        "checkov",
        "modules/case-store/main.tf",
        'resource "aws_s3_bucket_ownership_controls" "cases" {',
        'resource "aws_s3_bucket_acl" "cases" {\n  bucket = aws_s3_bucket.cases.id\n  acl    = '
        '"public-read"\n}\n\n'
        'resource "aws_s3_bucket_ownership_controls" "cases" {',
        "CKV_AWS_20",
    ),
    Defect(
        "a policy that allows everything",
        "checkov",
        "modules/case-store/main.tf",
        "actions   = local.storage_actions.cases.bucket\n    resources = [aws_s3_bucket.cases.arn]",
        'actions   = ["*"]\n    resources = ["*"]',
        "CKV_AWS_1",
    ),
)

KUBERNETES = (
    Defect(
        "a misspelt field",
        "kubernetes schema",
        "faultline.yaml",
        "terminationGracePeriodSeconds: 120",
        "terminationGracePeriod: 120",
        "terminationGracePeriod",
    ),
    Defect(
        "text where a number belongs",
        "kubernetes schema",
        "faultline.yaml",
        "terminationGracePeriodSeconds: 45",
        "terminationGracePeriodSeconds: soon",
        "soon",
    ),
    Defect(
        "a container that may run as root",
        "pod security",
        "faultline.yaml",
        "      terminationGracePeriodSeconds: 45\n      securityContext:\n        runAsNonRoot: "
        "true\n",
        "      terminationGracePeriodSeconds: 45\n      securityContext:\n",
        "server: may run as root",
    ),
    Defect(
        "a volume of the machine",
        "pod security",
        "faultline.yaml",
        "          emptyDir: {sizeLimit: 50Gi}",
        "          hostPath: {path: /var/tmp}",
        "volume tmp is of a kind that is not admitted",
    ),
    Defect(
        "the machine's network",
        "pod security",
        "faultline.yaml",
        "      serviceAccountName: faultline-worker\n",
        "      serviceAccountName: faultline-worker\n      hostNetwork: true\n",
        "hostNetwork is set",
    ),
    Defect(
        "a secret in plain sight",
        "pod security",
        "faultline.yaml",
        '            - {name: FAULTLINE_TELEMETRY__METRICS_ADDRESS, value: "0.0.0.0:9090"}\n',
        "            - {name: FAULTLINE_SLACK__BOT_TOKEN, value: xoxb-1}\n",
        "FAULTLINE_SLACK__BOT_TOKEN is in plain sight",
    ),
    Defect(
        "memory without a limit",
        "pod security",
        "faultline.yaml",
        "            limits: {memory: 4Gi}\n",
        "",
        "worker: its memory has no limit",
    ),
)
