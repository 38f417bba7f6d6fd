//! Files that are whole or not there: written under a temporary name, then renamed.
//!
//! Leans on the crate `tempfile`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

/// A file in work. Dropped before [`AtomicFile::commit`] it leaves nothing behind.
///
/// A device, a pipe or the like is written to as it is: a rename would put a file in its place.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Temporary(Temporary),
    Direct(File),
}

impl AtomicFile {
    /// A file that is to be at `path`; folders on the way are made.
    ///
    /// # Errors
    /// When the folder cannot be made, or nothing can be written there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let kind = match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => Kind::Direct(File::options().write(true).open(path)?),
            Ok(_) | Err(_) => Kind::Temporary(temporary_beside(path, ".part")?),
        };
        Ok(Self {
            path: path.to_owned(),
            kind,
        })
    }

    /// Puts the file in its place. An old file stands untouched until then.
    ///
    /// # Errors
    /// When what was written does not reach the disk, or the file cannot be renamed.
    pub fn commit(self) -> io::Result<()> {
        match self.kind {
            Kind::Temporary(file) => {
                file.file.as_file().sync_data()?;
                file.persist(&self.path)
            }
            Kind::Direct(mut file) => file.flush(),
        }
    }

    fn file(&mut self) -> &mut File {
        match &mut self.kind {
            Kind::Temporary(file) => file.file.as_file_mut(),
            Kind::Direct(file) => file,
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Read for AtomicFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file().read(bytes)
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, position: io::SeekFrom) -> io::Result<u64> {
        self.file().seek(position)
    }
}

/// Writes `bytes` to `path` in one step.
///
/// # Errors
/// When the folder cannot be made or the file not written; an old file then stands untouched.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}

/// What is there only until something is done. A process that ends in the middle takes it away.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file in work, or a folder that is nothing yet: [`discard_unfinished`] removes it while this
/// lives.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// `path` is in work from here on.
    pub fn new(path: &Path) -> Self {
        unfinished().insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().remove(&self.0);
    }
}

/// Removes every file in work, and every folder in work with nothing in it: for a process that ends
/// at once. Nobody can finish or begin a file while what is returned lives.
pub fn discard_unfinished() -> impl Drop {
    let paths = unfinished();
    remove(&paths);
    paths
}

fn remove(paths: &BTreeSet<PathBuf>) {
    // Files first: a folder goes only when it is empty.
    for path in paths {
        let _ = std::fs::remove_file(path);
    }
    for path in paths {
        let _ = std::fs::remove_dir(path);
    }
}

/// A file under a temporary name; dropped, it goes.
#[derive(Debug)]
pub(super) struct Temporary {
    file: NamedTempFile,
    mark: Unfinished,
}

impl Temporary {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub(super) fn persist(self, path: &Path) -> io::Result<()> {
        let Self { file, mark } = self;
        // Locked, so that it is either finished or taken away.
        let locked = unfinished();
        let done = file.persist(path);
        drop(locked);
        drop(mark);
        done.map(|_| ()).map_err(|error| error.error)
    }
}

/// A temporary file in the folder of `path`, which is made if need be.
pub(super) fn temporary_beside(path: &Path, suffix: &str) -> io::Result<Temporary> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tidegate-").suffix(suffix);
    // A temporary file is its owner's alone by default; a result is an ordinary file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    // Locked, so that no signal comes between the file and its mark.
    let mut marks = unfinished();
    let file = builder.tempfile_in(folder)?;
    let path = file.path().to_owned();
    marks.insert(path.clone());
    drop(marks);
    let mark = Unfinished(path);
    Ok(Temporary { file, mark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        assert!(write_atomically(&taken, b"new").is_err());
        assert!(taken.is_dir());
        assert!(write_atomically(&taken.join("new"), b"new").is_ok());
    }

    #[test]
    fn what_is_dropped_before_its_end_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_atomically(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn what_is_in_work_can_be_taken_away_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, empty) = (folder.path().join("file"), folder.path().join("empty"));
        // Of all the marks of this process, those of this test.
        let marks = || -> BTreeSet<PathBuf> {
            let all = unfinished();
            let ours = all.iter().filter(|path| path.starts_with(folder.path()));
            ours.cloned().collect()
        };
        std::fs::create_dir(&empty).unwrap();
        let mark = Unfinished::new(&empty);
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
        assert_eq!(marks().len(), 2);
        remove(&marks());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        drop(mark);
        assert!(file.commit().is_err() && !path.exists());
        write_atomically(&path, b"whole").unwrap();
        assert_eq!(marks().len(), 0, "what is finished is no longer in work");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_ordinary_file_stays_what_it_is() {
        use std::os::unix::fs::FileTypeExt as _;
        // A socket cannot be opened as a file, so it is an error; above all it is not replaced.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(write_atomically(&path, b"new").is_err());
        assert!(path.metadata().unwrap().file_type().is_socket());
        write_atomically(Path::new("/dev/null"), b"new").unwrap();
        let null = Path::new("/dev/null").metadata().unwrap();
        assert!(null.file_type().is_char_device());
    }
}
