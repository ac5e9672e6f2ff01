internal import CLinux

/// A system call that failed: its name and its `errno`.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    package var call: String
    package var code: Int32

    package init(call: String, code: Int32) {
        self.call = call
        self.code = code
    }

    /// `connect: Connection refused (ECONNREFUSED)`.
    package var description: String { "\(call): \(Self.text(code))" }

    /// `Connection refused (ECONNREFUSED)`.
    package static func text(_ code: Int32) -> String {
        let text = unsafe String(cString: linux_error_text(code))
        guard let name = unsafe linux_error_name(code) else { return "\(text) (\(code))" }
        return unsafe "\(text) (\(String(cString: name)))"
    }
}
