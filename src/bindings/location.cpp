#include <nanobind/stl/tuple.h>

#include <filesystem>
#include <unordered_map>

#include "bindings/convert.h"
#include "bindings/module.h"

// clang-format off: it relies on Python.h, which nanobind includes first
#include <frameobject.h>
// clang-format on

namespace popxl::bindings {
namespace {

struct File {
  bool internal;
  const std::string* path;
};

std::vector<std::string>& internalFolders() {
  static std::vector<std::string> folders;
  return folders;
}

std::string_view text(PyObject* string) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(string, &size);
  return data == nullptr ? std::string_view() : std::string_view(data, static_cast<size_t>(size));
}

/// What is known of a code object's file, by the string object that all code of the file shares.
const File& fileOf(PyObject* filename) {
  static auto* files = new std::unordered_map<PyObject*, File>();
  const auto it = files->find(filename);
  if (it != files->end()) return it->second;
  std::string path(text(filename));
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) path = std::filesystem::canonical(path, ignored).string();
  bool internal = path.empty() || path.starts_with("<frozen");
  for (const std::string& folder : internalFolders()) internal = internal || path.starts_with(folder);
  Py_INCREF(filename);
  return files->emplace(filename, File{internal, ir::intern(path)}).first->second;
}

const std::string* nameOfCode(PyObject* name) {
  static auto* names = new std::unordered_map<PyObject*, const std::string*>();
  const auto it = names->find(name);
  if (it != names->end()) return it->second;
  Py_INCREF(name);
  return names->emplace(name, ir::intern(text(name))).first->second;
}

}  // namespace

ir::Loc userLocation() {
  ir::Loc loc;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const File& file = fileOf(code->co_filename);
    if (!file.internal) loc = {file.path, nameOfCode(code->co_name), PyFrame_GetLineNumber(frame)};
    Py_DECREF(code);
    PyFrameObject* back = file.internal ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = back;
  }
  return loc;
}

void bindLocation(nb::module_& m) {
  m.def(
      "set_internal_folders",
      [](std::vector<std::string> folders) { internalFolders() = std::move(folders); }, nb::arg("folders"),
      "Files below these folders are the library's own, never where a user's program is.");
  m.def(
      "user_location",
      [] {
        const ir::Loc loc = userLocation();
        const std::string none;
        return std::tuple(loc.known() ? *loc.file : none, loc.function != nullptr ? *loc.function : none,
                          static_cast<int>(loc.line));
      },
      "File, function and line of the user's program that is running now; empty strings when there is none.");
}

}  // namespace popxl::bindings
