# Wrong values are refused before anything is made.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
}

variables {
  vpc_id             = "vpc-1"
  public_subnet_ids  = ["subnet-1", "subnet-2"]
  private_subnet_ids = ["subnet-3", "subnet-4"]
  secret_values      = {}
  host_name          = "faultline.example.com"
  certificate_arn    = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
  image              = "faultline:0.1.0"
}

run "wrong_values" {
  command = plan
  variables {
    environment        = { FAULTLINE_SLACK__BOT_TOKEN = "xoxb-1" }
    secrets            = ["FAULTLINE_SLACK__BOT_TOKN"]
    image              = "faultline:latest"
    host_name          = "https://faultline.example.com/"
    private_subnet_ids = ["subnet-3", "subnet-3"]
    tls_policy         = "ELBSecurityPolicy-2016-08"
    read_role_arns     = ["arn:aws:iam::210987654321:role/*"]
    log_retention_days = 0
    worker_count_min   = 0
  }
  expect_failures = [
    var.environment,
    var.secrets,
    var.image,
    var.host_name,
    var.private_subnet_ids,
    var.tls_policy,
    var.read_role_arns,
    var.log_retention_days,
    var.worker_count_min,
  ]
}

run "wrong_values_of_instances" {
  command = plan
  variables {
    environment      = { FAULTLINE_DATADOG__SHOP__API_KEY = "0123" }
    secrets          = ["FAULTLINE_LOGIN__SHOP__CLIENT_SECRET"]
    slack_workspaces = ["eu/1"]
  }
  expect_failures = [
    var.environment,
    var.secrets,
    var.slack_workspaces,
  ]
}

run "public_without_public_subnets" {
  command = plan
  variables {
    public_subnet_ids = []
  }
  expect_failures = [aws_lb.this]
}

run "socket_mode_needs_no_way_in" {
  command = plan
  variables {
    public_subnet_ids = []
    internal          = true
    allowed_cidrs     = ["10.0.0.0/8"]
  }
  assert {
    condition     = aws_lb.this.internal && toset(aws_lb.this.subnets) == toset(var.private_subnet_ids)
    error_message = "An internal load balancer lies in the private subnets."
  }
}
