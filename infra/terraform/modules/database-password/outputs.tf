output "secret_arn" {
  description = "The secret: a JSON object with `username` and `password`."
  value       = aws_secretsmanager_secret.database.arn
  depends_on  = [aws_secretsmanager_secret_version.database]
}

output "password" {
  description = "The password itself, for a write-only argument."
  value       = jsondecode(ephemeral.aws_secretsmanager_secret_version.database.secret_string).password
  ephemeral   = true
  sensitive   = true
}

output "placeholder" {
  description = "A value that nobody knows, another one each time, for secrets that are not set yet."
  value       = ephemeral.aws_secretsmanager_random_password.placeholder.random_password
  ephemeral   = true
  sensitive   = true
}
