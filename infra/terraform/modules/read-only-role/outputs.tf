output "role_arn" {
  description = "Value for `role_arn` of `[[aws.accounts]]`."
  value       = aws_iam_role.read.arn
}
