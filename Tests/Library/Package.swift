// swift-tools-version: 6.2
import PackageDescription

// A program of somebody else's, with no more than the README says: it asks for notifications with PushRecords and reads
// what became of them. `Tests/EndToEndTests/ClientsTests.swift` builds and runs it.

let package = Package(
    name: "shop",
    dependencies: [.package(name: "apns-worker", path: "../..")],
    targets: [
        .executableTarget(name: "shop", dependencies: [.product(name: "PushRecords", package: "apns-worker")])
    ]
)
