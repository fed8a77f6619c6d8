//! F0: arithmetic on dense vectors. Knows nothing of what they stand for.

/// Inner product of two vectors of the same length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Adds `other` to `row`, value by value.
pub fn add(row: &mut [f32], other: &[f32]) {
    for (x, y) in row.iter_mut().zip(other) {
        *x += y;
    }
}

/// Scales a vector to length 1; one without a length (all zeros) stays as it is.
pub fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        for x in vector {
            *x /= length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic() {
        let mut vector = vec![1.0, 2.0];
        add(&mut vector, &[2.0, 2.0]);
        assert_eq!(vector, [3.0, 4.0]);
        assert_eq!(dot(&vector, &[2.0, -1.0]), 2.0);
        normalise(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
    }

    #[test]
    fn a_vector_without_length_has_no_direction_to_normalise_to() {
        let mut vector = vec![0.0; 3];
        normalise(&mut vector);
        assert_eq!(vector, [0.0; 3]);
    }
}
