//! Charts as SVG text and PNG files.
//!
//! Leans on `draw`, `file` for temporary names, and the crate `plotters`.

use std::io;
use std::path::Path;

use plotters::prelude::*;

use super::Chart;
use super::canvas::{ENLARGED, TextPlace};
use super::draw::WIDTH;
use crate::report::atomic::temporary_beside;
use crate::report::text::escape_html;

/// How many pixels of a PNG make one unit: sharp on dense screens and in print.
const PNG_PIXELS: u32 = 2;
/// Drawn pixels that are averaged to one pixel of a PNG, in each direction.
const AVERAGED: usize = ENLARGED as usize / PNG_PIXELS as usize;

/// A chart that could not be drawn or written.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// The renderer gave up.
    #[error("cannot draw the chart `{name}`: {why}")]
    Draw {
        /// Name of the chart.
        name: &'static str,
        /// What it said.
        why: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

impl Chart {
    /// The chart as an SVG document.
    ///
    /// # Errors
    /// When the renderer gives up.
    pub fn svg(&self) -> Result<String, ChartError> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, self.pixels()).into_drawing_area();
            self.draw(&area, TextPlace::SVG)
                .map_err(|why| self.failed(&why))?;
            area.present().map_err(|why| self.failed(&why))?;
        }
        Ok(self.with_own_root(&text))
    }

    /// Writes the chart as a PNG, under a temporary name first.
    ///
    /// # Errors
    /// When the renderer gives up or the file cannot be written.
    pub fn write_png(&self, path: &Path) -> Result<(), ChartError> {
        let (width, height) = self.pixels();
        let mut drawn = vec![0; width as usize * height as usize * 3];
        {
            let backend = BitMapBackend::with_buffer(&mut drawn, (width, height));
            let area = backend.into_drawing_area();
            self.draw(&area, TextPlace::BITMAP)
                .map_err(|why| self.failed(&why))?;
            area.present().map_err(|why| self.failed(&why))?;
        }
        let size = (width / AVERAGED as u32, height / AVERAGED as u32);
        let reduced = reduced(&drawn, width as usize);
        let temporary = temporary_beside(path, ".png")?;
        {
            let mut backend = BitMapBackend::new(temporary.path(), size);
            backend
                .blit_bitmap((0, 0), size, &reduced)
                .map_err(|why| self.failed(&why))?;
            backend.present().map_err(|why| self.failed(&why))?;
        }
        temporary.persist(path)?;
        Ok(())
    }

    /// Drawn size in pixels: both sides are whole multiples of [`AVERAGED`].
    fn pixels(&self) -> (u32, u32) {
        let enlarged = |units: f64| units.ceil() as u32 * ENLARGED as u32;
        (enlarged(WIDTH), enlarged(self.height()))
    }

    /// Puts a root of our own in place of the one that plotters wrote: shown in units, scaling with
    /// its surroundings, named for those who cannot see it, and with round joints.
    fn with_own_root(&self, text: &str) -> String {
        let body = text.split_once('>').map_or("", |(_, body)| body);
        let (width, height) = self.pixels();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" stroke-linejoin=\"round\" \
             stroke-linecap=\"round\"><title>{}</title><desc>{}</desc>{body}",
            self.height().ceil(),
            escape_html(&self.title),
            escape_html(&self.subtitle),
        )
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> ChartError {
        ChartError::Draw {
            name: self.name,
            why: why.to_string(),
        }
    }
}

/// Averages squares of pixels of an RGB picture that is `width` wide.
fn reduced(drawn: &[u8], width: usize) -> Vec<u8> {
    let row = width * 3;
    let mut reduced = Vec::with_capacity(drawn.len() / (AVERAGED * AVERAGED));
    let mut sums = vec![0_u32; row / AVERAGED];
    for rows in drawn.chunks_exact(row * AVERAGED) {
        sums.fill(0);
        for line in rows.chunks_exact(row) {
            for (sums, square) in sums
                .chunks_exact_mut(3)
                .zip(line.chunks_exact(3 * AVERAGED))
            {
                for pixel in square.chunks_exact(3) {
                    for (sum, value) in sums.iter_mut().zip(pixel) {
                        *sum += u32::from(*value);
                    }
                }
            }
        }
        let averaged = (AVERAGED * AVERAGED) as u32;
        reduced.extend(sums.iter().map(|sum| (sum / averaged) as u8));
    }
    reduced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{RunResult, chart, result::tests::record};

    #[test]
    fn squares_are_averaged() {
        // Two by two pixels become one.
        let drawn = [[0, 0, 0], [100, 0, 0], [0, 40, 0], [0, 0, 255]].concat();
        assert_eq!(reduced(&drawn, 2), [25, 10, 63]);
    }

    #[test]
    fn every_chart_of_an_empty_run_is_drawn_and_says_whose_it_is() {
        let mut record = record();
        record.file = "a<b>&\u{7}.toml".to_owned();
        let result = RunResult::new(record);
        let folder = tempfile::tempdir().unwrap();
        for chart in chart::all(&result) {
            let svg = chart.svg().unwrap();
            assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
            assert_eq!(svg.matches("<svg").count(), 1);
            for part in ["seed 7", &result.config_hash, "0 messages measured"] {
                assert!(svg.contains(part), "{}: {part}", chart.name);
            }
            assert!(svg.contains("a&lt;b&gt;&amp;"), "{svg}");
            assert!(!svg.contains('\u{7}'));
            let path = folder.path().join(format!("{}.png", chart.name));
            chart.write_png(&path).unwrap();
            let png = std::fs::read(&path).unwrap();
            assert!(png.starts_with(b"\x89PNG"));
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 5);
    }
}
