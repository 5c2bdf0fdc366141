# Who may speak to whom: the internet to the load balancer, it to the servers, servers and workers to the database and,
# by HTTPS and what `extra_egress` names, outwards. Nothing else.

resource "aws_security_group" "load_balancer" {
  name_prefix = "${var.name}-alb-"
  description = "Faultline: load balancer"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-alb" })
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "https" {
  for_each          = toset(var.allowed_cidrs)
  security_group_id = aws_security_group.load_balancer.id
  description       = "Webhooks and pages"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "http" {
  for_each          = toset(var.allowed_cidrs)
  security_group_id = aws_security_group.load_balancer.id
  description       = "Is sent on to HTTPS"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 80
  to_port           = 80
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "load_balancer_to_server" {
  security_group_id            = aws_security_group.load_balancer.id
  description                  = "Servers"
  referenced_security_group_id = aws_security_group.server.id
  ip_protocol                  = "tcp"
  from_port                    = local.server_port
  to_port                      = local.server_port
  tags                         = var.tags
}

resource "aws_security_group" "server" {
  name_prefix = "${var.name}-server-"
  description = "Faultline: servers"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-server" })
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "server" {
  security_group_id            = aws_security_group.server.id
  description                  = "Load balancer"
  referenced_security_group_id = aws_security_group.load_balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.server_port
  to_port                      = local.server_port
  tags                         = var.tags
}

resource "aws_security_group" "worker" {
  name_prefix = "${var.name}-worker-"
  description = "Faultline: workers; nobody calls them"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-worker" })
  lifecycle {
    create_before_destroy = true
  }
}

locals {
  bots = {
    server = aws_security_group.server.id
    worker = aws_security_group.worker.id
  }
  # One rule for each process and each way out.
  ways_out = merge([
    for bot in keys(local.bots) : merge(
      { "${bot}-https" = { bot = bot, port = 443, cidr = "0.0.0.0/0", description = "Slack, vendors, AWS" } },
      { for way in var.extra_egress : "${bot}-${way.port}-${way.cidr}" => merge(way, { bot = bot }) },
    )
  ]...)
}

resource "aws_vpc_security_group_egress_rule" "outwards" {
  for_each          = local.ways_out
  security_group_id = local.bots[each.value.bot]
  description       = each.value.description
  cidr_ipv4         = each.value.cidr
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "to_database" {
  for_each                     = local.bots
  security_group_id            = each.value
  description                  = "PostgreSQL"
  referenced_security_group_id = aws_security_group.database.id
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
  tags                         = var.tags
}

resource "aws_security_group" "database" {
  name_prefix = "${var.name}-database-"
  description = "Faultline: PostgreSQL"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-database" })
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "database" {
  for_each                     = local.bots
  security_group_id            = aws_security_group.database.id
  description                  = "Faultline ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
  tags                         = var.tags
}
