import Foundation
import TestSupport
import Testing

@testable import apns_bench

/// The driver in Python has its tests beside this file. Here is what it shares with the program in Swift.
@Suite struct DriverTests {
    private static let python = Python.place(with: ["json"])
    private static let here = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

    @Test(.enabled(if: python != nil, "missing: a Python (Docker/setup --tests)"), .waiting)
    func `the driver's own tests pass`() throws {
        let process = try ChildProcess(
            try #require(Self.python), [Self.here.appending(path: "driver_tests.py").path])
        #expect(try process.wait(seconds: 60) == .exited(0), "\(process.text)")
    }

    /// The send floor posts to the devices that nghttpd was told about, and the parts take the payload of the topics.
    @Test(.enabled(if: python != nil, "missing: a Python (Docker/setup --tests)"), .waiting)
    func `tokens and payloads are the same in both languages`() throws {
        let driver = Self.here.appending(path: "../../Sources/apns-bench/driver").standardizedFileURL.path
        let script = """
            import os, sys; os.environ["APNS_BENCH"] = ""; sys.path.insert(0, "\(driver)"); import stage
            print(*stage.device_tokens(3), stage.payload(12), sep="\\n")
            """
        let process = try ChildProcess(try #require(Self.python), ["-c", script])
        try #require(try process.wait(seconds: 60) == .exited(0), "\(process.text)")
        var source = TokenSource()
        let tokens = (0..<3).map { _ in
            String(unsafeUninitializedCapacity: TokenSource.size) { source.next(into: $0.baseAddress!) }
        }
        #expect(process.text == (tokens + [Traffic.payload(12)]).joined(separator: "\n") + "\n")
        var text = PayloadText()
        text.set(12)
        #expect(String(decoding: text.bytes, as: UTF8.self) == Traffic.payload(12))
    }

    @Test func `frames of a client are found however they are cut`() {
        let frames: [(type: UInt8, size: Int)] = [(4, 12), (1, 300), (0, 0), (9, 5)]
        var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        for frame in frames {
            bytes += [0, UInt8(frame.size >> 8), UInt8(frame.size & 255), frame.type, 0, 0, 0, 0, 1]
            bytes += [UInt8](repeating: 1, count: frame.size)
        }
        for cut in 0...bytes.count {
            var sizes = FrameSizes()
            var seen: [String] = []
            for piece in [bytes[..<cut], bytes[cut...]] {
                Array(piece).withUnsafeBytes { piece in sizes.take(piece) { seen.append("\($0) \($1)") } }
            }
            #expect(seen == ["4 12", "1 300", "0 0", "9 5"], "cut at \(cut)")
        }
    }

    @Test func `the time of a payload is read where there is one`() {
        for (text, us) in [
            (#"{"aps":{},"at_us":1790000000123456}"#, 1_790_000_000_123_456), (#"{"aps":{}}"#, nil), ("", nil),
        ] as [(String, Int64?)] {
            #expect(Array(text.utf8).withUnsafeBytes { ProbeConnection.sentUs($0) } == us)
        }
    }
}
