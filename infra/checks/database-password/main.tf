# Takes the place of modules/database-password while `terraform test` runs: mocks know no ephemeral resources.

resource "aws_secretsmanager_secret" "database" {
  name                    = var.name
  kms_key_id              = var.kms_key_arn
  recovery_window_in_days = var.recovery_window_days
  tags                    = merge(var.tags, { username = var.username, version = var.password_version })
}
