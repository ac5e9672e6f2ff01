import Synchronization

/// Keeps a large value that holds it where it is.
///
/// The compiler copies a value that it may load to the stack for each call that only reads it, also one that cannot be
/// copied in the language (Swift 6.3: 1,752 bytes of the machine for each record read, seen under callgrind). A value
/// with an atomic in it has an address of its own, and calls get that.
struct InPlace: ~Copyable {
    private let atomic = Atomic(false)
}
