//! Many elements joined to one: reductions and softmax.

family! { reduction softmax }
