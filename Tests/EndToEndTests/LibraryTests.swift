import Foundation
import TestSupport
import Testing

extension EndToEnd.Services {
    /// `Tests/Library`: a program written from the README only, in a package of its own.
    @Suite(.serialized) struct LibraryTests {
        static let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appending(path: "../Library").standardizedFileURL.path

        /// Beside what the tests were built to, so that it is built once.
        private static func scratch() throws -> String {
            URL(fileURLWithPath: try Tool.worker.path()).deletingLastPathComponent()
                .appending(path: "library").path
        }

        /// It builds, produces both forms with PushRecords, and reads results and dead tokens. Building takes some 20 s
        /// the first time.
        @Test(.needs(.worker, .broker, .swift))
        func `A program of its own`() throws {
            let scene = try Scene("library", partitions: 2)
            let scratch = try Self.scratch()
            let arguments = [
                "build", "--package-path", Self.package, "--scratch-path", scratch, "--disable-sandbox",
                "--disable-index-store", "--quiet",
            ]
            let built = try Scene.run("swift", arguments, within: 900)
            try #require(built.ending == .exited(0), "\(built.text)")
            _ = try scene.startSimulator()
            let worker = try scene.startWorker()
            let program = try scene.start(
                "\(scratch)/debug/shop",
                [
                    scene.servers, scene.configuration.requests, scene.configuration.results,
                    scene.configuration.unregistered,
                ])
            let ending = try program.wait()
            print(program.text)
            #expect(ending == .exited(0))
            #expect(program.text.contains("refused: PayloadTooLarge: the payload has more than 4096 bytes"))
            #expect(program.text.contains("forgotten: fa174101…, gone since 1600000000000"))
            #expect(program.text.contains("all is well"))
            try scene.stop(worker)
        }
    }
}
