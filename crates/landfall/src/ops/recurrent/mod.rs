//! Recurrent layers: a cell that is applied step by step over time, each sequence in one kernel.

family! { recurrence recurrence_grad }
