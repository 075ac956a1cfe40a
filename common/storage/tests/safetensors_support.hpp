#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/storage/safetensors.hpp>

// Files around any bytes, and the form that all their errors share.

namespace truestep::storage {

using Metadata = std::map<std::string, std::string>;
using Shape = std::vector<std::uint64_t>;

inline void store(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string load(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

/// The bytes of a file around any header text, which need not be valid.
inline std::string file_bytes(std::string_view header, std::string_view data) {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes.append(header).append(data);
}

inline void read_all(const SafetensorsFile& file) {
    for (const TensorEntry& entry : file.tensors()) {
        EXPECT_EQ(file.find(entry.name), &entry);
        if (entry.type == DataType::f32) {
            EXPECT_EQ(file.read_f32(entry.name).size(), entry.element_count());
        } else if (entry.type == DataType::f64) {
            EXPECT_EQ(file.read_f64(entry.name).size(), entry.element_count());
        } else if (entry.type == DataType::u8) {
            EXPECT_EQ(file.read_u8(entry.name).size(), entry.element_count());
        }
    }
}

struct Failure {
    std::uint64_t offset = 0;
    std::string text; // what follows the offset
};

class SafetensorsTest : public testing::Test {
  protected:
    SafetensorsTest() {
        std::string pattern = testing::TempDir() + "safetensors_XXXXXX";
        folder_ = mkdtemp(pattern.data());
        path_ = folder_ / "file.safetensors";
    }
    ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

    /// Runs an action that must throw truestep::Error, and checks the form that all its messages
    /// share.
    template <typename Action>
    Failure failure_of(Action action) const {
        try {
            action();
        } catch (const Error& error) {
            const std::string message = error.what();
            EXPECT_TRUE(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }))
                << message;
            const std::string mark = ": byte ";
            const std::size_t number = message.find(mark);
            EXPECT_NE(message.find("; ", number), std::string::npos) << message;
            EXPECT_TRUE(message.starts_with(folder_.string())) << message;
            if (number == std::string::npos) {
                return {0, message};
            }
            Failure failure;
            const char* const begin = message.data() + number + mark.size();
            const char* const end =
                std::from_chars(begin, message.data() + message.size(), failure.offset).ptr;
            EXPECT_GT(end, begin) << message;
            EXPECT_TRUE(std::string_view(end).starts_with(": ")) << message;
            failure.text = end;
            return failure;
        }
        ADD_FAILURE() << "nothing was thrown";
        return {};
    }

    Failure failure_to_open() const {
        return failure_of([&] { SafetensorsFile{path_}; });
    }

    template <typename Action>
    void expect_failure(std::uint64_t offset, const std::string& text, Action action) const {
        const Failure failure = failure_of(action);
        EXPECT_EQ(failure.offset, offset) << failure.text;
        EXPECT_NE(failure.text.find(text), std::string::npos) << failure.text;
    }

    void expect_failure_to_open(std::uint64_t offset, const std::string& text) const {
        expect_failure(offset, text, [&] { SafetensorsFile{path_}; });
    }

    std::filesystem::path partial_path() const { return path_.string() + ".partial"; }

    std::filesystem::path folder_;
    std::filesystem::path path_;
};

inline void write_small_file(const std::filesystem::path& path) {
    SafetensorsWriter writer(path, {{"key", "value"}, {"é\n", ""}});
    writer.declare("scalar", DataType::f64, {});
    writer.declare("matrix", DataType::f32, {2, 3});
    writer.declare("empty", DataType::f32, {0});
    writer.declare("flags", DataType::u8, {3});
    writer.write_f64("scalar", std::vector{0.5});
    writer.write_f32("matrix", std::vector{1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F});
    writer.write_f32("empty", {});
    writer.write_u8("flags", std::vector<std::uint8_t>{1, 0, 1});
    writer.finish();
}

inline std::string small_file(const std::filesystem::path& path) {
    write_small_file(path);
    return load(path);
}

} // namespace truestep::storage
