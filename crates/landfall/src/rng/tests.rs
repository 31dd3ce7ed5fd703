use super::*;

/// The known-answer vectors that the authors publish with Random123.
#[test]
fn philox_gives_the_published_answers() {
    let ones = u32::MAX;
    assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox4x32([ones; 4], [ones; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    let answer = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
    assert_eq!(philox4x32(counter, [0xa409_3822, 0x299f_31d0]), answer);
}

#[test]
fn fill_is_the_documented_function_of_the_index_from_any_start() {
    let (seed, step, stream) = (0x1234_5678_9abc_def0, 7, 3);
    let word = |i: u64| block(seed, step, stream, i / 4)[(i % 4) as usize];
    let starts = [0, 1, 2, 3, 4, 61, 64, 1 << 33, (1 << 34) - 5, u64::MAX - 70];
    for first in starts {
        for len in [0, 1, 2, 3, 4, 5, 63, 64, 65, 131, 200] {
            let mut out = vec![0; len];
            fill_u32(seed, step, stream, first, &mut out);
            let expected: Vec<u32> = (0..len as u64).map(|i| word(first.wrapping_add(i))).collect();
            assert_eq!(out, expected, "first {first}, len {len}");
        }
    }
}

#[test]
fn seed_step_stream_and_block_each_matter() {
    let base = block(1, 2, 3, 4);
    let others = [block(2, 2, 3, 4), block(1 | 1 << 40, 2, 3, 4), block(1, 3, 3, 4), block(1, 2, 4, 4)];
    for other in others.into_iter().chain([block(1, 2, 3, 5), block(1, 2, 3, 4 | 1 << 40)]) {
        assert!(base.iter().zip(other).all(|(&a, b)| a != b));
    }
}

#[test]
fn uniform_numbers_reach_zero_and_stay_below_one() {
    assert_eq!((uniform_f32(0), uniform_f64(0, 0)), (0.0, 0.0));
    assert_eq!(uniform_f32(u32::MAX), 1.0 - f32::EPSILON / 2.0);
    assert_eq!(uniform_f64(u32::MAX, u32::MAX), 1.0 - f64::EPSILON / 2.0);
    assert_eq!((uniform_f32(1 << 31), uniform_f64(1 << 30, 0)), (0.5, 0.25));
}

#[test]
fn keeping_is_exact_at_the_ends() {
    assert_eq!((threshold(1.0), threshold(0.0), threshold(f64::NAN)), (1 << 32, 0, 0));
    assert_eq!((threshold(7.0), threshold(-1.0), threshold(0.25)), (1 << 32, 0, 1 << 30));
    assert!(keep(u32::MAX, threshold(1.0)) && !keep(0, threshold(0.0)));
    let mut words = vec![0; 1 << 16];
    fill_u32(5, 0, 0, 0, &mut words);
    let kept = words.iter().filter(|&&word| keep(word, threshold(0.9))).count() as f64;
    // Five standard deviations of a binomial count.
    let (mean, deviation) = (0.9 * 65536.0, (65536.0_f64 * 0.9 * 0.1).sqrt());
    assert!((kept - mean).abs() < 5.0 * deviation, "{kept}");
}

#[test]
fn normal_numbers_have_the_moments_of_the_normal_law() {
    let count = 100_000;
    let moment = |power: i32| (0..count).map(|i| normal(9, 0, 1, i).powi(power)).sum::<f64>() / count as f64;
    // Moments 0, 1, 0, 3, within five standard errors (variances 1, 2, 15, 96).
    for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0_f64)] {
        let error = (moment(power) - expected).abs();
        assert!(error < 5.0 * (variance / count as f64).sqrt(), "moment {power} is off by {error}");
    }
    assert!(normal_pair([u32::MAX; 4]).iter().all(|x| x.is_finite()));
    assert_eq!(normal_pair([0; 4]), [0.0; 2]);
}

#[test]
fn the_sequence_is_the_stream_in_order() {
    let mut rng = Rng::new(11, 4);
    let mut words = [0; 10];
    fill_u32(11, 0, 4, 0, &mut words);
    assert_eq!(words, array::from_fn(|_| rng.next_u32()));
    let mut seen = [0_u32; 7];
    for _ in 0..7000 {
        seen[rng.range(10..17) - 10] += 1;
    }
    assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    assert_eq!((rng.range(3..3), rng.range(5..6)), (3, 5));
    assert!((0..100).all(|_| (0.0..1.0).contains(&rng.uniform()) && rng.normal().is_finite()));
}

#[test]
fn shuffles_are_bijections() {
    for n in (1..=2000).chain([4095, 4096, 4097, 65_537, 262_145]) {
        let shuffle = Shuffle::new(n, 42, n);
        let mut seen = vec![false; n as usize];
        for position in 0..n {
            let index = shuffle.index(position).expect("inside");
            assert!(!std::mem::replace(&mut seen[index as usize], true), "n {n}: {index} twice");
        }
        assert_eq!(shuffle.index(n), None);
    }
    assert_eq!(Shuffle::new(0, 1, 1).index(0), None);
    for n in [u64::MAX, u64::MAX / 2, (1 << 62) + 1, 1 << 40] {
        let shuffle = Shuffle::new(n, 1, 2);
        let mut sample: Vec<_> = (0..1000).map(|i| shuffle.index(n / 1000 * i).expect("inside")).collect();
        assert!(sample.iter().all(|&index| index < n));
        sample.sort_unstable();
        assert!(sample.windows(2).all(|pair| pair[0] != pair[1]));
    }
}

/// Orders are data: a run that was begun under one is resumed under it.
#[test]
fn shuffles_are_the_documented_orders() {
    let at = |n, seed, epoch| {
        let shuffle = Shuffle::new(n, seed, epoch);
        [0, 1, n / 2, n - 1].map(|position| shuffle.index(position).expect("inside"))
    };
    // An even number of bits.
    assert_eq!(at(4, 3, 5), [2, 1, 3, 0]);
    assert_eq!(at(16, 7, 2), [1, 5, 3, 13]);
    assert_eq!(at(1000, 42, 1), [422, 987, 519, 783]);
    assert_eq!(at(50_000, 1, 0), [28_366, 28_869, 30_586, 48_149]);
    assert_eq!(
        at(1 << 40, 11, 1 << 33),
        [944_895_638_650, 223_332_136_694, 637_143_530_274, 554_212_118_969]
    );
    // An odd number, rounded up where it is small.
    assert_eq!(at(120, 3, 1), [97, 99, 118, 106]);
    assert_eq!(at(300, 9, 4), [140, 76, 158, 202]);
    assert_eq!(at(16_408, 2021, 3), [179, 15_334, 15_147, 7613]);
    let far = [
        4_110_819_352_929_169_538,
        2_959_767_945_248_841_262,
        1_248_980_521_540_496_888,
        1_262_928_848_954_442_166,
    ];
    assert_eq!(at((1 << 62) + 5, 11, 7), far);
}

/// Passes that positions take: what a batch waits for is the longest walk in it.
#[test]
fn a_walk_is_short() {
    for n in [129, 257, 4097, 16_408, 65_537] {
        let shuffle = Shuffle::new(n, 5, 1);
        let passes = |position| {
            let mut value = shuffle.permute(position);
            let mut count = 1;
            while value >= n {
                value = shuffle.permute(value);
                count += 1;
            }
            count
        };
        let total: u64 = (0..n).map(passes).sum();
        assert!(total <= 2 * n, "{n} samples take {total} passes");
    }
}

/// Chi-square of counts that should be equal, in standard deviations from its mean.
fn chi_square_score(counts: &[u32]) -> f64 {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let chi_square: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
    let freedom = (counts.len() - 1) as f64;
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn shuffles_look_random() {
    // Where a sample lands relative to its place, over epochs.
    for n in [100_u64, 300, 1000, 16_408, 37_632] {
        let mut displacement = [0; 50];
        for epoch in 0..(200_000 / n) {
            let shuffle = Shuffle::new(n, 3, epoch);
            for position in 0..n {
                let index = shuffle.index(position).expect("inside");
                displacement[((index + n - position) % n * 50 / n) as usize] += 1;
            }
        }
        // Bins differ by at most a place in 328, far below the noise.
        assert!(chi_square_score(&displacement).abs() < 5.0, "n {n}: {displacement:?}");
    }
    // All orders of four samples, over epochs and over seeds.
    for by_seed in [false, true] {
        let mut orders = [0; 256];
        for key in 0..24_000 {
            let shuffle = if by_seed { Shuffle::new(4, key, 0) } else { Shuffle::new(4, 8, key) };
            let order = (0..4).fold(0, |order, i| order * 4 + shuffle.index(i).expect("inside"));
            orders[order as usize] += 1;
        }
        let seen: Vec<u32> = orders.into_iter().filter(|&count| count > 0).collect();
        assert_eq!(seen.len(), 24);
        assert!(chi_square_score(&seen).abs() < 5.0, "{seen:?}");
    }
    // What follows a sample tells nothing: steps between neighbours spread evenly too.
    let shuffle = Shuffle::new(50_000, 1, 0);
    let mut steps = [0; 50];
    for position in 1..50_000 {
        let at = |position| shuffle.index(position).expect("inside");
        steps[((at(position) + 50_000 - at(position - 1)) % 50_000 / 1000) as usize] += 1;
    }
    assert!(chi_square_score(&steps).abs() < 5.0, "{steps:?}");
}
