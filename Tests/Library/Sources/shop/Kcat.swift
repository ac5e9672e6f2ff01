import Foundation
import PushRecords

/// Produces and consumes records with kcat, so that the program needs no Kafka library.
struct Kcat {
    var servers: String

    struct Failure: Error {
        var status: Int32
    }

    /// Produces one record.
    func produce(_ record: RequestRecord, to topic: String) throws {
        // The partitioner of Java clients, so that a device has one partition with any client.
        var arguments = ["-P", "-t", topic, "-X", "partitioner=murmur2_random"]
        // JSON never contains this delimiter, so a value with line breaks is one record.
        arguments += ["-D", "\\x1e"]
        if let key = record.key { arguments += ["-k", String(decoding: key, as: UTF8.self)] }
        for header in record.headers { arguments += ["-H", header.description] }
        _ = try run(arguments, input: Data(record.value))
    }

    /// Waits until a topic has `count` records, and returns the values of the first ones.
    func consume(_ topic: String, count: Int) throws -> [[UInt8]] {
        try run(["-C", "-q", "-t", topic, "-o", "beginning", "-c", "\(count)", "-f", "%s\\n"])
            .split(separator: UInt8(ascii: "\n")).map { Array($0) }
    }

    private func run(_ arguments: [String], input: Data = Data()) throws -> Data {
        let process = Process()
        let standardInput = Pipe()
        let standardOutput = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["kcat", "-b", servers] + arguments
        process.standardInput = standardInput
        process.standardOutput = standardOutput
        try process.run()
        try standardInput.fileHandleForWriting.write(contentsOf: input)
        try standardInput.fileHandleForWriting.close()
        let output = try standardOutput.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(status: process.terminationStatus) }
        return output
    }
}
