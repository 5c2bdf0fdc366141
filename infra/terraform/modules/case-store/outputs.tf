output "cases_location" {
  description = "Value for store.cases."
  value       = "s3://${aws_s3_bucket.cases.bucket}/faultline"
}

output "bucket_arn" {
  description = "The bucket of case folders."
  value       = aws_s3_bucket.cases.arn
}

output "policy_arn" {
  description = "Attach it to the role that runs `faultline serve` and `faultline worker`."
  value       = aws_iam_policy.bot.arn
}
