internal import CLinux
internal import Glibc

/// Starts a thread for a body. It is to be joined or detached.
///
/// - Parameter name: as `top -H` shows it; 15 bytes are kept.
package func startThread(
    _ name: String, _ body: @escaping @Sendable () -> Void
) throws(SystemError) -> UInt {
    // `pthread_t`, which is of CLinux or of Glibc, whichever the compiler loads first.
    var thread: UInt = 0
    let start = unsafe Unmanaged.passRetained(Start(name: name, body: body))
    let code = unsafe pthread_create(&thread, nil, { unsafe run($0) }, start.toOpaque())
    guard code == 0 else {
        unsafe start.release()
        throw SystemError(call: "pthread_create", code: code)
    }
    return thread
}

private final class Start: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}

/// Called by pthread_create on the new thread.
private func run(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    let start = unsafe Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
    unsafe start.name.withCString { unsafe linux_name_thread($0) }
    start.body()
    return nil
}
