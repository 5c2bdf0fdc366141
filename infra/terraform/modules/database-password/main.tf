# The database's password: made by AWS, kept in Secrets Manager, in no state and no plan. A higher version makes a new one.

ephemeral "aws_secretsmanager_random_password" "password" {
  password_length            = 40
  exclude_punctuation        = true
  require_each_included_type = true
}

resource "aws_secretsmanager_secret" "database" {
  name                    = var.name
  description             = "Faultline: user and password of its database"
  kms_key_id              = var.kms_key_arn
  recovery_window_in_days = var.recovery_window_days
  tags                    = var.tags
}

resource "aws_secretsmanager_secret_version" "database" {
  secret_id = aws_secretsmanager_secret.database.id
  secret_string_wo = jsonencode({
    username = var.username
    password = ephemeral.aws_secretsmanager_random_password.password.random_password
  })
  secret_string_wo_version = var.password_version
}

# Read back, so that a run that changes nothing, or was cut off, never sets another password than the one that is kept.
ephemeral "aws_secretsmanager_secret_version" "database" {
  secret_id = aws_secretsmanager_secret_version.database.secret_id
}

ephemeral "aws_secretsmanager_random_password" "placeholder" {
  password_length            = 40
  exclude_punctuation        = true
  require_each_included_type = true
}
