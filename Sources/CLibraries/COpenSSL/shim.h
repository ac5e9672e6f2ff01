// What Swift imports of this library; macros and variadic functions get a static inline function here.
#pragma once
#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
