//! The evaluator with AVX2: 32 rows in one register of bytes.

use std::arch::x86_64::*;

use super::{Forest, Tree, BLOCK, PLANES, TREES_PER_SUM};

/// Sums of one plane's bytes over at most TREES_PER_SUM trees: of all pairs of bytes taken as 16 bits (wrapping), and of
/// the odd bytes alone. The sum of the even bytes follows from both.
type Sums = [[__m256i; 2]; PLANES];

/// Scores of 32 rows. Safe when the processor has AVX2 and each of the columns, `stride` apart, has 32 values.
#[target_feature(enable = "avx2")]
pub unsafe fn score(
    forest: &Forest,
    columns: &[f32],
    stride: usize,
    below: &mut [u8],
    scores: &mut [f64; BLOCK],
) {
    for (feature, borders) in forest.borders.iter().enumerate() {
        let counts = count_below(columns.as_ptr().add(feature * stride), borders);
        _mm256_storeu_si256(below[feature * BLOCK..].as_mut_ptr().cast(), counts);
    }
    let mut totals = [0u64; BLOCK];
    for trees in forest.trees.chunks(TREES_PER_SUM) {
        add_sums(sum_leaves(trees, below), &mut totals);
    }
    for (score, total) in scores.iter_mut().zip(totals) {
        *score = forest.score(total);
    }
}

/// How many borders of its column lie below each of 32 values; kept less 128, since AVX2 compares signed bytes.
#[target_feature(enable = "avx2")]
unsafe fn count_below(values: *const f32, borders: &[f32]) -> __m256i {
    let value = [0, 8, 16, 24].map(|at| _mm256_loadu_ps(values.add(at)));
    let mut count = [_mm256_setzero_si256(); 4];
    for &border in borders {
        let border = _mm256_set1_ps(border);
        for (count, value) in count.iter_mut().zip(value) {
            // True is -1: subtracting it counts one.
            *count = _mm256_sub_epi32(
                *count,
                _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(value, border)),
            );
        }
    }
    let low = _mm256_packs_epi32(count[0], count[1]);
    let high = _mm256_packs_epi32(count[2], count[3]);
    // Packing works within halves of 128 bits; the permutation puts the rows in order again.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_xor_si256(bytes, _mm256_set1_epi8(-128))
}

#[target_feature(enable = "avx2")]
unsafe fn sum_leaves(trees: &[Tree], below: &[u8]) -> Sums {
    let mut sums = [[_mm256_setzero_si256(); 2]; PLANES];
    for tree in trees {
        let above: [__m256i; 6] = std::array::from_fn(|level| {
            let counts = _mm256_loadu_si256(below.as_ptr().add(tree.starts[level] as usize).cast());
            _mm256_cmpgt_epi8(
                counts,
                _mm256_set1_epi8((tree.thresholds[level] ^ 128) as i8),
            )
        });
        // Four splits choose within 16 leaves by shuffling, two choose among four shuffles.
        let mut within = _mm256_and_si256(above[0], _mm256_set1_epi8(1));
        within = _mm256_or_si256(within, _mm256_and_si256(above[1], _mm256_set1_epi8(2)));
        within = _mm256_or_si256(within, _mm256_and_si256(above[2], _mm256_set1_epi8(4)));
        within = _mm256_or_si256(within, _mm256_and_si256(above[3], _mm256_set1_epi8(8)));
        for (plane, sums) in tree.planes.iter().zip(&mut sums) {
            let bytes = looked_up(plane, within, above[4], above[5]);
            sums[0] = _mm256_add_epi16(sums[0], bytes);
            sums[1] = _mm256_add_epi16(sums[1], _mm256_srli_epi16::<8>(bytes));
        }
    }
    sums
}

#[target_feature(enable = "avx2")]
unsafe fn looked_up(plane: &[u8; 64], within: __m256i, fifth: __m256i, sixth: __m256i) -> __m256i {
    let quarter = |at: usize| {
        let table = _mm256_broadcastsi128_si256(_mm_load_si128(plane.as_ptr().add(at * 16).cast()));
        _mm256_shuffle_epi8(table, within)
    };
    let low = _mm256_blendv_epi8(quarter(0), quarter(1), fifth);
    let high = _mm256_blendv_epi8(quarter(2), quarter(3), fifth);
    _mm256_blendv_epi8(low, high, sixth)
}

#[target_feature(enable = "avx2")]
unsafe fn add_sums(sums: Sums, totals: &mut [u64; BLOCK]) {
    for (plane, [both, odd]) in sums.into_iter().enumerate() {
        let even = _mm256_sub_epi16(both, _mm256_slli_epi16::<8>(odd));
        let mut evens = [0u16; 16];
        let mut odds = [0u16; 16];
        _mm256_storeu_si256(evens.as_mut_ptr().cast(), even);
        _mm256_storeu_si256(odds.as_mut_ptr().cast(), odd);
        for pair in 0..16 {
            totals[2 * pair] += u64::from(evens[pair]) << (8 * plane);
            totals[2 * pair + 1] += u64::from(odds[pair]) << (8 * plane);
        }
    }
}
