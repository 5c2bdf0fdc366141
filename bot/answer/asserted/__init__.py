"""What a model may say: claims as data, which code checks against the findings and words."""
