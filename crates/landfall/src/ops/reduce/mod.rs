//! Many elements joined to one: reductions and softmax.

family! { cumsum reduction softmax }
