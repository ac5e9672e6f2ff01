import CNghttp2
import COpenSSL
import Glibc

/// What decides how many instructions the same source is: compiler, C libraries and processor, by name.
struct Toolchain: Equatable {
    var versions: [String: String] = [:]

    /// Of this machine. Swift is asked which it is; a program does not know what compiled it.
    static func current(scratch: Scratch) -> Toolchain {
        var versions: [String: String] = [:]
        versions["swift"] = swiftVersion(scratch)
        versions["nghttp2"] = String(cString: nghttp2_version(0).pointee.version_str)
        versions["openssl"] = String(cString: OpenSSL_version(OPENSSL_VERSION_STRING))
        versions["glibc"] = libraryVersion
        var name = utsname()
        uname(&name)
        versions["architecture"] = withUnsafeBytes(of: &name.machine) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
        return Toolchain(versions: versions)
    }

    /// "glibc 2.36" without its name.
    private static var libraryVersion: String {
        var buffer = [CChar](repeating: 0, count: 128)
        let count = confstr(Int32(_CS_GNU_LIBC_VERSION), &buffer, buffer.count)
        let text = String(decoding: buffer.prefix(max(0, count - 1)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text.split(separator: " ").last.map { String($0) } ?? "unknown"
    }

    private static func swiftVersion(_ scratch: Scratch) -> String {
        guard let swift = try? Programs.find("swift", package: "none"),
            let asked = try? Child("swift", [swift, "--version"], scratch: scratch),
            (try? asked.wait(until: Deadline(seconds: 60))) != nil
        else { return "unknown" }
        let words = asked.output.split(whereSeparator: { $0 == " " || $0 == "\n" })
        guard let place = words.firstIndex(of: "version"), place + 1 < words.count else { return "unknown" }
        return String(words[place + 1])
    }

    /// What differs between the two, in words; empty: the same. OpenSSL is only told: no part calls it.
    func differences(from other: Toolchain) -> [String] {
        Set(versions.keys).union(other.versions.keys).subtracting(["openssl"]).sorted().compactMap { name in
            let (here, there) = (versions[name] ?? "unknown", other.versions[name] ?? "unknown")
            return here == there && here != "unknown" ? nil : "\(name) \(here) instead of \(there)"
        }
    }
}
