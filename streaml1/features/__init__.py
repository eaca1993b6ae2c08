"""From named features to slots."""
