//! Normalisations, and their running statistics.

family! { batch_norm l2_norm layer_norm running_update }
