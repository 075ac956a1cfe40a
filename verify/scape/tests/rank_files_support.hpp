#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support.hpp"

// Shared by the tests of ranks' own files.

namespace truestep::verify::scape::support {

/// Writes the files that the ranks would have written by themselves: each rank's own results, and
/// what precedes the first step. The trace holds copies of the results that are the same on all
/// ranks.
inline std::vector<std::filesystem::path> split_by_rank(const std::filesystem::path& trace, int workers,
                                                        const std::filesystem::path& folder,
                                                        const std::string& name = "run") {
    std::vector<std::filesystem::path> files;
    for (int rank = 0; rank < workers; ++rank) {
        FileImage image(trace);
        const std::string own = "/rank" + std::to_string(rank);
        std::erase_if(image.tensors, [&](const FileImage::Tensor& tensor) {
            return tensor.name.starts_with("step/") && tensor.name.find("/rank") != std::string::npos &&
                   !tensor.name.ends_with(own);
        });
        std::string& config = image.metadata.at("config");
        config.insert(config.rfind('}'), ",\"rank\":" + std::to_string(rank));
        files.push_back(folder / (name + ".rank" + std::to_string(rank) + ".safetensors"));
        image.save(files.back());
    }
    return files;
}

} // namespace truestep::verify::scape::support
