//! The allocator of the module: the server's own, so that `used_memory` includes the module's memory.
//!
//! It keeps two promises that the server's allocator does not. Rust relies on the alignment that it asks for. The unwinder, which
//! is written in C, relies on `malloc`: it assumes the block of a panic to be aligned to 16, though Rust asks for a word only.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::api::optional_api;

/// How the server's blocks are aligned on every system. More is usual, but not certain: a server whose C library does not tell
/// the size of a block stores it in a word before the block, so that none is aligned to more than a word.
const WORD: usize = size_of::<usize>();

/// How `malloc` aligns its blocks.
const USUAL: usize = 16;

/// The smallest block that the unwinder can need.
const UNWINDERS: usize = 32;

/// Whether the server aligns blocks of a multiple of [`USUAL`] as `malloc` does. With other sizes a jemalloc that is linked into a
/// server does not: it has blocks of 40 and 56 bytes.
static IS_USUAL: AtomicBool = AtomicBool::new(true);

/// Learns how the server aligns its blocks: before the module allocates anything.
pub(super) fn learn_alignment() {
    let (Some(alloc), Some(free)) = (optional_api!(RedisModule_Alloc), optional_api!(RedisModule_Free))
    else {
        return;
    };
    let is_usual = [32, 48, 64, 112, 512, 4096].into_iter().all(|size| {
        // SAFETY: any size may be asked for, and the block is freed once.
        unsafe {
            let block = alloc(size);
            free(block);
            block.addr().is_multiple_of(USUAL)
        }
    });
    IS_USUAL.store(is_usual, Ordering::Relaxed);
}

/// The server's allocator. The server ends itself where memory is exhausted, as for its own data.
pub(crate) struct ServerAllocator;

/// How a block is aligned.
enum Way {
    /// As the server aligns one of this size.
    Servers(usize),
    /// To this alignment, within a larger block of the server's.
    Within(usize),
}

impl Way {
    #[inline(always)]
    fn of(layout: Layout) -> Self {
        match (layout.size(), layout.align()) {
            (_, align) if align > WORD => Self::Within(align),
            (size, _) if size < UNWINDERS => Self::Servers(size),
            _ if !IS_USUAL.load(Ordering::Relaxed) => Self::Within(USUAL),
            // No overflow: a layout's size is at most half of the address space.
            (size, _) => Self::Servers(size.wrapping_add(USUAL - 1) & !(USUAL - 1)),
        }
    }
}

/// A block of the server's, larger by an alignment than what is needed. The first aligned address behind its beginning is at
/// least a word behind it, and that word holds where the block begins.
struct Enclosing(*mut u8);

impl Enclosing {
    /// # Safety
    /// The alignment is a power of two, of at least two words; the block is larger by it than what is needed.
    unsafe fn aligned(self, align: usize) -> *mut u8 {
        let distance = align.wrapping_sub(self.0.addr() & align.wrapping_sub(1));
        // SAFETY: the distance is from a word to the alignment; the block is at a multiple of a word, and so is this address.
        unsafe {
            let aligned = self.0.add(distance);
            aligned.cast::<*mut u8>().sub(1).write(self.0);
            aligned
        }
    }

    /// # Safety
    /// The address is one of [`Self::aligned`].
    unsafe fn of(aligned: *mut u8) -> Self {
        // SAFETY: by the promise of the caller.
        Self(unsafe { aligned.cast::<*mut u8>().sub(1).read() })
    }
}

// SAFETY: the server's functions give blocks that are the caller's alone until they are freed, on any thread. Their pointers are
// null until the load begins; a null answer says that there is no memory.
unsafe impl GlobalAlloc for ServerAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(alloc) = optional_api!(RedisModule_Alloc) else { return ptr::null_mut() };
        match Way::of(layout) {
            // SAFETY: any size may be asked for.
            Way::Servers(size) => unsafe { alloc(size) }.cast(),
            Way::Within(align) => {
                // SAFETY: as above. No overflow: each is at most half of the address space.
                let block = unsafe { alloc(layout.size().wrapping_add(align)) };
                if block.is_null() {
                    return ptr::null_mut();
                }
                // SAFETY: the block has this room.
                unsafe { Enclosing(block.cast()).aligned(align) }
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let (Way::Servers(size), Some(calloc)) = (Way::of(layout), optional_api!(RedisModule_Calloc)) {
            // SAFETY: any size may be asked for.
            return unsafe { calloc(1, size) }.cast();
        }
        // SAFETY: by the promise of the caller; the block has this size.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(free) = optional_api!(RedisModule_Free) else { return };
        let block = match Way::of(layout) {
            Way::Servers(_) => block,
            // SAFETY: the block is one of this allocator, with this layout.
            Way::Within(_) => unsafe { Enclosing::of(block) }.0,
        };
        // SAFETY: the server gave it.
        unsafe { free(block.cast()) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the promise of the caller, the layout is valid with the new size.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if let (Way::Servers(_), Way::Servers(size)) = (Way::of(layout), Way::of(new_layout))
            && let Some(realloc) = optional_api!(RedisModule_Realloc)
        {
            // SAFETY: the server gave the block; the size is not zero.
            return unsafe { realloc(block.cast(), size) }.cast();
        }
        // The server could move a block by another distance than a multiple of the alignment, and leave the contents unaligned.
        // SAFETY: as above; both blocks have the smaller size.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}
