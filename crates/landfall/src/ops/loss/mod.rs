//! Losses, each a scalar, with their gradients.

family! { cross_entropy regression }
