import Glibc

/// Why a regular expression was refused, in the C library's words.
struct PatternError: Error {
    var reason: String
}

/// A POSIX extended regular expression of the C library: the same that librdkafka matches topic patterns with
/// (`rdregex.c`: `regcomp(…, REG_EXTENDED | REG_NOSUB)`).
@safe final class Pattern {
    private var compiled = unsafe regex_t()

    init(_ text: String) throws(PatternError) {
        let code = unsafe regcomp(&compiled, text, REG_EXTENDED | REG_NOSUB)
        guard code == 0 else {
            var message = [UInt8](repeating: 0, count: 200)
            let length = unsafe message.withUnsafeMutableBytes { unsafe regerror(code, nil, $0.baseAddress, $0.count) }
            throw PatternError(reason: String(decoding: message.prefix(max(0, Int(length) - 1)), as: UTF8.self))
        }
    }

    deinit { unsafe regfree(&compiled) }

    func matches(_ text: String) -> Bool {
        unsafe regexec(&compiled, text, 0, nil, 0) == 0
    }
}
