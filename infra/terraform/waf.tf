# Pages get AWS's managed rules and a limit per address. What vendors send does not: it is signed, the bot checks that, and
# an alert may quote anything. A stack trace that looks like an attack must not be the alert that never arrived.

locals {
  managed_rules = {
    AWSManagedRulesAmazonIpReputationList = 10
    AWSManagedRulesKnownBadInputsRuleSet  = 20
    AWSManagedRulesCommonRuleSet          = 30
    AWSManagedRulesSQLiRuleSet            = 40
  }
  # Paths that begin so are asked for by vendors alone.
  signed_paths = ["/webhooks/", "/slack/"]
}

resource "aws_wafv2_web_acl" "this" {
  name        = var.name
  description = "Faultline"
  scope       = "REGIONAL"
  tags        = var.tags

  default_action {
    allow {}
  }

  # Alerts are up to 1 MB (server.max_body_bytes, which the bot itself enforces); AWS WAF sees the first 8 KB of a body at a
  # load balancer and cannot measure more. What says that it is 10 MB or longer is turned away here.
  rule {
    name     = "announced-too-long"
    priority = 0
    action {
      block {}
    }
    statement {
      size_constraint_statement {
        comparison_operator = "GE"
        size                = 8 # digits of Content-Length
        field_to_match {
          single_header {
            name = "content-length"
          }
        }
        text_transformation {
          priority = 0
          type     = "NONE"
        }
      }
    }
    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "announced-too-long"
      sampled_requests_enabled   = true
    }
  }

  # A vendor sends all alerts from a few addresses, and an incident is when it sends many.
  rule {
    name     = "rate-of-webhooks"
    priority = 1
    action {
      block {}
    }
    statement {
      rate_based_statement {
        limit                 = var.webhook_rate_limit
        evaluation_window_sec = 300
        aggregate_key_type    = "IP"
        scope_down_statement {
          or_statement {
            dynamic "statement" {
              for_each = local.signed_paths
              content {
                byte_match_statement {
                  positional_constraint = "STARTS_WITH"
                  search_string         = statement.value
                  field_to_match {
                    uri_path {}
                  }
                  text_transformation {
                    priority = 0
                    type     = "NONE"
                  }
                }
              }
            }
          }
        }
      }
    }
    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "rate-of-webhooks"
      sampled_requests_enabled   = true
    }
  }

  rule {
    name     = "rate-of-pages"
    priority = 2
    action {
      block {}
    }
    statement {
      rate_based_statement {
        limit                 = var.page_rate_limit
        evaluation_window_sec = 300
        aggregate_key_type    = "IP"
        scope_down_statement {
          not_statement {
            statement {
              or_statement {
                dynamic "statement" {
                  for_each = local.signed_paths
                  content {
                    byte_match_statement {
                      positional_constraint = "STARTS_WITH"
                      search_string         = statement.value
                      field_to_match {
                        uri_path {}
                      }
                      text_transformation {
                        priority = 0
                        type     = "NONE"
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "rate-of-pages"
      sampled_requests_enabled   = true
    }
  }

  dynamic "rule" {
    for_each = local.managed_rules
    content {
      name     = rule.key
      priority = rule.value
      override_action {
        none {}
      }
      statement {
        managed_rule_group_statement {
          name        = rule.key
          vendor_name = "AWS"
          scope_down_statement {
            not_statement {
              statement {
                or_statement {
                  dynamic "statement" {
                    for_each = local.signed_paths
                    content {
                      byte_match_statement {
                        positional_constraint = "STARTS_WITH"
                        search_string         = statement.value
                        field_to_match {
                          uri_path {}
                        }
                        text_transformation {
                          priority = 0
                          type     = "NONE"
                        }
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
      visibility_config {
        cloudwatch_metrics_enabled = true
        metric_name                = rule.key
        sampled_requests_enabled   = true
      }
    }
  }

  visibility_config {
    cloudwatch_metrics_enabled = true
    metric_name                = var.name
    sampled_requests_enabled   = true
  }
}

resource "aws_wafv2_web_acl_association" "this" {
  resource_arn = aws_lb.this.arn
  web_acl_arn  = aws_wafv2_web_acl.this.arn
}

resource "aws_cloudwatch_log_group" "waf" {
  name              = "aws-waf-logs-${var.name}" # AWS WAF takes no other prefix
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_wafv2_web_acl_logging_configuration" "this" {
  resource_arn            = aws_wafv2_web_acl.this.arn
  log_destination_configs = [aws_cloudwatch_log_group.waf.arn]

  logging_filter {
    default_behavior = "DROP"
    filter {
      behavior    = "KEEP"
      requirement = "MEETS_ANY"
      condition {
        action_condition {
          action = "BLOCK"
        }
      }
    }
  }
  redacted_fields {
    single_header {
      name = "authorization"
    }
  }
  redacted_fields {
    single_header {
      name = "cookie"
    }
  }
}
