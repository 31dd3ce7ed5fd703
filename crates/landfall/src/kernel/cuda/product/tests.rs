//! Operands in the library's terms, with no GPU.

use super::*;
use crate::values::{MAX_RANK, Shape};
use proptest::prelude::*;

fn operand(layout: Layout, base: u64) -> Operand {
    Operand { base: Address(base), dtype: DType::F32, layout }
}

impl Matrix {
    /// Where element (i, j) of matrix `b` lies as the operand has it: the transpose of what the product takes.
    fn at(&self, b: usize, i: usize, j: usize) -> usize {
        let (row, column) = if self.transposed { (i, j) } else { (j, i) };
        assert!(row < self.rows && column < self.cols, "({row}, {column}) of {self:?}");
        b * self.step + row + column * self.lead
    }
}

/// Layouts of rank 2 to 4: permuted, sliced, with steps, with axes broadcast.
fn layouts() -> impl Strategy<Value = Layout> {
    let dims = prop::collection::vec(1usize..5, 2..5);
    let axis = (0usize..MAX_RANK, 0usize..MAX_RANK, 1usize..3, any::<bool>());
    (dims, prop::collection::vec(axis, 0..4)).prop_map(|(dims, moves)| {
        let mut layout = Layout::contiguous(Shape::new(&dims).expect("a rank of at most 4"));
        for (a, b, step, broadcast) in moves {
            let rank = dims.len();
            let (a, b) = (a % rank, b % rank);
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.swap(a, b);
            layout = layout.permute(&axes).expect("a permutation");
            let size = layout.shape().dims()[a];
            if broadcast {
                let one = layout.slice(a, 0, 1, 1).expect("inside");
                layout = one.broadcast_to(*layout.shape()).expect("from one");
            } else if size > 1 {
                layout = layout.slice(a, 1, (size - 1).div_ceil(step), step).expect("inside");
            }
        }
        layout
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// What is taken names the same elements as the operand's own layout.
    #[test]
    fn matrices_are_the_operands(layout in layouts()) {
        let Some((batch, matrix)) = Matrix::of(&operand(layout, 4096)) else { return Ok(()) };
        let [outer @ .., m, n] = layout.shape().dims() else { panic!("a matrix") };
        prop_assert_eq!(batch, outer.iter().product::<usize>());
        prop_assert!(matrix.lead >= matrix.rows.max(1));
        let first = layout.index_flat(0);
        for b in 0..batch {
            for i in 0..*m {
                for j in 0..*n {
                    let want = layout.index_flat((b * m + i) * n + j) - first;
                    prop_assert_eq!(matrix.at(b, i, j), want, "batch {} row {} column {}", b, i, j);
                }
            }
        }
    }

    /// Contiguous operands and their transposes are always taken.
    #[test]
    fn plain_operands_are_taken(dims in prop::collection::vec(1usize..5, 2..5), swap in any::<bool>()) {
        let mut layout = Layout::contiguous(Shape::new(&dims).expect("a rank of at most 4"));
        if swap {
            let mut axes: Vec<usize> = (0..dims.len()).collect();
            axes.swap(dims.len() - 1, dims.len() - 2);
            layout = layout.permute(&axes).expect("a permutation");
        }
        prop_assert!(Matrix::of(&operand(layout, 4096)).is_some());
    }
}

fn launch(lhs: Layout, rhs: Layout, out: Layout) -> Option<ProductLaunch> {
    let inputs = [operand(lhs, 256), operand(rhs, 1 << 12)];
    ProductLaunch::new(&inputs, &operand(out, 1 << 16), Precision::Strict, (Address(64), 1024), 0)
}

#[test]
fn one_matrix_for_a_batch_is_one_product() {
    let whole = |d: &[usize]| Layout::contiguous(Shape::new(d).expect("a rank of at most 4"));
    let shared = whole(&[1, 4, 5]).broadcast_to(Shape::from([3, 4, 5])).expect("from one");
    let joined = launch(whole(&[3, 2, 4]), shared, whole(&[3, 2, 5])).expect("taken").problem;
    assert_eq!((joined.batch, joined.out.rows, joined.out.cols, joined.b.cols), (1, 5, 6, 6));
    let apart = launch(whole(&[3, 2, 4]), whole(&[3, 4, 5]), whole(&[3, 2, 5])).expect("taken").problem;
    assert_eq!((apart.batch, apart.out.cols, apart.a.step, apart.b.step, apart.out.step), (3, 2, 20, 8, 10));
}

#[test]
fn what_the_library_does_not_know_is_left() {
    let whole = |d: &[usize]| Layout::contiguous(Shape::new(d).expect("a rank of at most 4"));
    let by_columns = whole(&[5, 2]).permute(&[1, 0]).expect("a permutation");
    assert!(launch(whole(&[2, 4]), whole(&[4, 5]), by_columns).is_none(), "a result by columns");
    let strided = whole(&[2, 8]).slice(1, 0, 4, 2).expect("inside");
    assert!(launch(strided, whole(&[4, 5]), whole(&[2, 5])).is_none(), "every other element");
    assert!(launch(whole(&[2, 0]), whole(&[0, 5]), whole(&[2, 5])).is_none(), "an empty sum");
}

#[test]
fn alignment_is_that_of_the_first_element() {
    let rows = Layout::contiguous(Shape::from([4, 6])).slice(0, 1, 2, 1).expect("inside");
    let (_, matrix) = Matrix::of(&operand(rows, 4096)).expect("taken");
    assert_eq!(matrix.alignment, 8, "24 bytes in");
    assert_eq!((alignment(4096), alignment(2)), (16, 2));
}
