//! Matrix products.

family! { dense }
