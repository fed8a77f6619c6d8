//! A network in the format of `rten`, run on one picture or a batch of lines.

use std::borrow::Cow;
use std::sync::Arc;

use rten::{Model, RunOptions, ThreadPool, Value};

use super::OcrError;

/// A network of one input and one output.
pub struct Network {
    name: &'static str,
    model: Model,
    pool: Arc<ThreadPool>,
}

impl Network {
    /// # Errors
    /// Bytes that are no network, or one of operators that are not known.
    pub fn load(name: &'static str, bytes: Cow<'static, [u8]>, pool: Arc<ThreadPool>) -> Result<Self, OcrError> {
        let loaded = match bytes {
            Cow::Borrowed(bytes) => Model::load_static_slice(bytes),
            Cow::Owned(bytes) => Model::load(bytes),
        };
        let model = loaded.map_err(|source| OcrError::Load { name, source: Box::new(source) })?;
        Ok(Network { name, model, pool })
    }

    /// From a batch of planes to an output of `N` dimensions.
    ///
    /// # Errors
    /// A network that does not take this shape or gives another than `N` dimensions.
    pub fn run<const N: usize>(&self, shape: [usize; 4], values: Vec<f32>) -> Result<([usize; N], Vec<f32>), OcrError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| OcrError::Run { name: self.name, source };
        let input = Value::from_shape(shape, values).map_err(|it| failed(Box::new(it)))?;
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
        let output = self.model.run_one(input.into(), Some(options)).map_err(|it| failed(Box::new(it)))?;
        output.into_shape_vec().map_err(|it| failed(Box::new(it)))
    }
}
