# Installs NAME.pc, made from NAME.pc.in in this folder. Its paths are relative, because cmake --install --prefix may move it.
function(shedlock_install_pkg_config name)
  set(folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH up_to_prefix ${folder} ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH to_headers ${folder} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
