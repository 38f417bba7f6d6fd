//! Drawing with plotters in units of a page, on any of its backends.
//!
//! plotters places everything on whole pixels, so the canvas draws enlarged and is shown reduced:
//! lines come out smooth in SVG and PNG alike. Leans on the crate `plotters`.

use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

/// How many pixels of the backend make one unit.
pub(super) const ENLARGED: f64 = 4.0;

/// The registered font. SVG viewers without Roboto take the next that they have.
const FAMILY: &str =
    "Roboto, Helvetica Neue, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif";

static REGULAR: &[u8] = include_bytes!("../../../assets/Roboto-Regular.ttf");
static BOLD: &[u8] = include_bytes!("../../../assets/Roboto-Bold.ttf");

/// The colours of charts. Neutral ones are used for nothing else, so that a page can restyle them
/// for a dark screen; the others are told apart by colour-blind readers too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Paper,
    Ink,
    Muted,
    Grid,
    Blue,
    Sky,
    Green,
    Orange,
    Red,
    Purple,
    Grey,
}

impl Paint {
    pub(super) const fn rgb(self) -> RGBColor {
        match self {
            Self::Paper => RGBColor(255, 255, 255),
            Self::Ink => RGBColor(27, 36, 48),
            Self::Muted => RGBColor(95, 107, 122),
            Self::Grid => RGBColor(227, 232, 238),
            Self::Blue => RGBColor(0, 104, 178),
            Self::Sky => RGBColor(86, 180, 233),
            Self::Green => RGBColor(0, 150, 110),
            Self::Orange => RGBColor(230, 145, 0),
            Self::Red => RGBColor(209, 63, 46),
            Self::Purple => RGBColor(148, 92, 180),
            Self::Grey => RGBColor(138, 150, 163),
        }
    }
}

/// Where a text stands in relation to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Center,
    Right,
}

/// Size and weight of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) paint: Paint,
}

/// A text in regular weight.
pub(super) const fn plain(size: f64, paint: Paint) -> Type {
    Type {
        size,
        bold: false,
        paint,
    }
}

/// A text in bold.
pub(super) const fn bold(size: f64, paint: Paint) -> Type {
    Type {
        size,
        bold: true,
        paint,
    }
}

type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// How far below its place a backend must be told to write, in sizes of the type, so that the middle
/// of small letters is where it should be: plotters centres differently in its backends.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextPlace(pub(super) f64);

impl TextPlace {
    pub(super) const SVG: Self = Self(0.05);
    pub(super) const BITMAP: Self = Self(0.2);
}

/// A sheet of which one unit is about one point on a screen.
pub(super) struct Canvas<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    text: TextPlace,
}

impl<'a, DB: DrawingBackend> Canvas<'a, DB> {
    pub(super) fn new(area: &'a DrawingArea<DB, Shift>, text: TextPlace) -> Self {
        register_fonts();
        Self { area, text }
    }

    pub(super) fn fill(&self, paint: Paint) -> Drawn<DB> {
        self.area.fill(&paint.rgb())
    }

    pub(super) fn rectangle(
        &self,
        from: (f64, f64),
        to: (f64, f64),
        paint: Paint,
        opacity: f64,
    ) -> Drawn<DB> {
        let style = paint.rgb().mix(opacity).filled();
        self.area
            .draw(&Rectangle::new([pixel(from), pixel(to)], style))
    }

    /// A line through all points.
    pub(super) fn line(&self, points: &[(f64, f64)], paint: Paint, width: f64) -> Drawn<DB> {
        let style = paint.rgb().stroke_width(pixels(width));
        let points: Vec<_> = points.iter().copied().map(pixel).collect();
        self.area.draw(&PathElement::new(points, style))
    }

    /// A dashed line through all points.
    pub(super) fn dashes(&self, points: &[(f64, f64)], paint: Paint, width: f64) -> Drawn<DB> {
        for dash in dashes_of(points, 5.0, 4.0) {
            self.line(&dash, paint, width)?;
        }
        Ok(())
    }

    pub(super) fn polygon(&self, points: &[(f64, f64)], paint: Paint, opacity: f64) -> Drawn<DB> {
        let points: Vec<_> = points.iter().copied().map(pixel).collect();
        let style = paint.rgb().mix(opacity).filled();
        self.area.draw(&Polygon::new(points, style))
    }

    pub(super) fn dot(&self, at: (f64, f64), radius: f64, paint: Paint) -> Drawn<DB> {
        let style = paint.rgb().filled();
        self.area
            .draw(&Circle::new(pixel(at), pixels(radius) as i32, style))
    }

    /// A text whose middle line is at `at`.
    pub(super) fn text(&self, text: &str, at: (f64, f64), font: Type, align: Align) -> Drawn<DB> {
        let horizontal = match align {
            Align::Left => HPos::Left,
            Align::Center => HPos::Center,
            Align::Right => HPos::Right,
        };
        let style = style_of(font).pos(Pos::new(horizontal, VPos::Center));
        let at = (at.0, at.1 + self.text.0 * font.size);
        self.area.draw_text(text, &style, pixel(at))
    }
}

/// How wide `text` is.
pub(super) fn width_of(text: &str, font: Type) -> f64 {
    register_fonts();
    match style_of(font).font.layout_box(text) {
        Ok(((left, _), (right, _))) => f64::from(right - left) / ENLARGED,
        // A font that cannot measure is better guessed than fatal.
        Err(_) => text.chars().count() as f64 * font.size * 0.5,
    }
}

fn style_of(font: Type) -> TextStyle<'static> {
    let style = if font.bold {
        FontStyle::Bold
    } else {
        FontStyle::Normal
    };
    // plotters counts line height, not the size of type.
    let height = font.size * ENLARGED * 1.2;
    (FAMILY, height, style).into_font().color(&font.paint.rgb())
}

fn register_fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (style, bytes) in [(FontStyle::Normal, REGULAR), (FontStyle::Bold, BOLD)] {
            let registered = register_font(FAMILY, style, bytes);
            debug_assert!(registered.is_ok(), "the fonts in assets/ are whole");
        }
    });
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    ((x * ENLARGED).round() as i32, (y * ENLARGED).round() as i32)
}

fn pixels(width: f64) -> u32 {
    (width * ENLARGED).round().max(1.0) as u32
}

/// Cuts a line into dashes of `on` with pauses of `off`.
fn dashes_of(points: &[(f64, f64)], on: f64, off: f64) -> Vec<Vec<(f64, f64)>> {
    let mut dashes = Vec::new();
    let (mut drawing, mut left) = (true, on);
    let mut dash: Vec<(f64, f64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let (dx, dy) = (to.0 - from.0, to.1 - from.1);
            let length = dx.hypot(dy);
            if length <= left {
                left -= length;
                if drawing {
                    dash.push(to);
                }
                break;
            }
            let part = left / length;
            from = (from.0 + dx * part, from.1 + dy * part);
            if drawing {
                dash.push(from);
                dashes.push(std::mem::take(&mut dash));
            } else {
                dash.push(from);
            }
            drawing = !drawing;
            left = if drawing { on } else { off };
        }
    }
    if drawing && dash.len() > 1 {
        dashes.push(dash);
    }
    dashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_follow_the_line_with_even_pauses() {
        let dashes = dashes_of(&[(0.0, 0.0), (12.0, 0.0), (12.0, 6.0)], 5.0, 4.0);
        assert_eq!(
            dashes,
            [
                vec![(0.0, 0.0), (5.0, 0.0)],
                vec![(9.0, 0.0), (12.0, 0.0), (12.0, 2.0)],
            ]
        );
        assert!(dashes_of(&[], 5.0, 4.0).is_empty());
        assert!(dashes_of(&[(1.0, 1.0)], 5.0, 4.0).is_empty());
    }

    #[test]
    fn both_fonts_can_be_used() {
        let narrow = width_of("ii", plain(12.0, Paint::Ink));
        let wide = width_of("WW", plain(12.0, Paint::Ink));
        let wider = width_of("nnnnnn", bold(12.0, Paint::Ink));
        assert!(
            narrow < wide / 2.0 && wide < wider,
            "{narrow} {wide} {wider}"
        );
    }
}
