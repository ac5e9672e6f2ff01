// swift-tools-version: 6.2
import PackageDescription

// A separate package that uses only what the README documents: it produces requests with PushRecords and reads their
// results. `Tests/EndToEndTests/ClientsTests.swift` builds and runs it.

let package = Package(
    name: "shop",
    dependencies: [.package(name: "apns-worker", path: "../..")],
    targets: [
        .executableTarget(name: "shop", dependencies: [.product(name: "PushRecords", package: "apns-worker")])
    ]
)
