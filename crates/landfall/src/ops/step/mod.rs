//! What a training step is made of beside its model: optimizer, gradient norms, loss scale, cursor, windows of the data.

family! { assign assign_rows accumulate adam clip cursor loss_scale micro_batch_mean windows }
